"""How a query begins, once: topics, the first progress of every owner, and only then the first routing table.

The table is the sign that all of it is there. A unit that finds a table and no progress of its own has therefore lost
it, and stops loudly: beginning anew would lose or double results. Whichever tier starts first does this; several may do
it at once, and one that dies half-way leaves it to the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from functools import partial

from biclique.hosts.perform import try_start_unit
from biclique.hosts.shuffle.packing import dispatcher_of
from biclique.hosts.shuffle.starts import Topics, first_places
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control import Control, OutOfTurn
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.kafka_topics import ensure_topics, refuse_unfit, refuse_unfit_output, topics_of
from biclique.ports.log import LogClient
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, End, Outcome
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Producer, unit_address
from biclique.tiers.progress import DispatcherProgress, MergerProgress, Progress, SourcePartition

ATTEMPTS, PAUSE_S = 20, 0.1


class NotFounded(Exception):
    """The first progress of an owner could not be written."""


Places = Mapping[SourcePartition, int]


def found(plan: Plan, log: KafkaLog, control: Control, topics: Topics, replication: int, units_max: int) -> None:
    wanted, kafka = topics_of(plan, log.settings.prefix, units_max), dict(log.settings.client)
    refuse_unfit_output(kafka, plan.query, replication)
    if control.table(None) is not None:
        refuse_unfit(kafka, wanted)
        return
    table = first_table(plan)
    ensure_topics(kafka, wanted, replication)
    client = log.client()
    try:
        places = first_places(plan.query, topics)
        begin_owners(plan, client, table, lambda unit: log.bounds(unit_address(unit)).end, places)
    finally:
        client.close()
    try:
        control.publish(table)
    except OutOfTurn:
        if control.table(0) != table:
            raise  # else: another tier was quicker


def begin_owners(
    plan: Plan, client: LogClient, table: RoutingTable, end_of: Callable[[UnitId], int], places: Places
) -> None:
    """The first progress of every owner is there when this returns, whoever wrote it. `places`: behind which the
    sources' partitions begin (hosts/shuffle/starts.py); each is one dispatcher's, so each is chosen once."""
    for unit in table.units():
        _until(str(unit), partial(_born, client, unit, table, end_of(unit)))
    senders = table.units_of_stage(len(plan.stages) - 1)
    first: dict[Producer, Progress] = {}
    for number in range(plan.dispatchers):
        mine = {key: place for key, place in places.items() if dispatcher_of(key, plan.dispatchers) == number}
        first[dispatcher_producer(number)] = DispatcherProgress(last=mine)
    first |= {merger_producer(number): MergerProgress(senders=senders) for number in range(plan.mergers)}
    for owner, progress in first.items():
        _until(str(owner), partial(_begun, client, owner, progress))


def _until(who: str, begun: Callable[[], bool]) -> None:
    """Of several that begin the same owner at once, each fences the one before and the last one's commit counts; so one
    that was fenced looks again, after a while of its own length."""
    for attempt in range(ATTEMPTS):
        if begun():
            return
        time.sleep(random.uniform(0, PAUSE_S * (attempt + 1)))
    raise NotFounded(f"{who} could not begin: another process begins it again and again, or Kafka does not commit")


def _born(client: LogClient, unit: UnitId, table: RoutingTable, lower: int) -> bool:
    return try_start_unit(client, unit, table, lower) is End.STOPPED


def _begun(client: LogClient, owner: Producer, progress: Progress) -> bool:
    """Looked at once more behind the fence: who comes late leaves what another has begun as it is."""
    if client.read_progress(owner) is not None:
        return True
    client.fence(owner)
    if client.read_progress(owner) is not None:
        return True
    return client.commit(Commit(owner, owner, (), progress)) is Outcome.COMMITTED
