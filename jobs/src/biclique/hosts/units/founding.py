"""How a query begins, once: topics, the first progress of every owner, and only then the first routing table.

The table is the sign that all of it is there. A unit that finds a table and no progress of its own has therefore lost
it, and stops loudly: beginning anew would lose or double results. Whichever tier starts first does this; several may do
it at once, and one that dies half-way leaves it to the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
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
from biclique.ports.refusals import Refused, Unreachable
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, End, Outcome
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Producer, unit_address
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, MergerProgress, Progress, SourcePartition

ATTEMPTS, PAUSE_S = 20, 0.1
SEEN_S, LOOK_S = 10.0, 0.1  # within which a table is seen that another has published


class NotFounded(Unreachable):
    """The first progress of an owner could not be written, for now."""


Places = Mapping[SourcePartition, int]


def found(
    plan: Plan,
    log: KafkaLog,
    control: Control,
    topics: Topics,
    units_max: int,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """`turned`: called between any two things that Kafka is asked: of a large query, or where Kafka answers half, they
    take minutes, and whoever looks must see that it is not one of them that stands still."""
    wanted, kafka = topics_of(plan, log.settings.prefix, units_max), dict(log.settings.client)
    refuse_unfit_output(kafka, plan.query)
    if control.table(None) is not None:
        refuse_unfit(kafka, wanted)
        return
    table = first_table(plan)
    ensure_topics(kafka, wanted, plan.query.replication)
    turned()
    client = log.client()
    try:
        places = first_places(plan.query, topics)
        begin_owners(plan, client, table, lambda unit: log.written_to(unit_address(unit)), places, turned)
    finally:
        client.close()
    publish_first(control, table, log.settings.prefix)


def owners_of(plan: Plan) -> list[Producer]:
    """All that have progress from the beginning."""
    units = [joiner_producer(unit) for unit in first_table(plan).units()]
    dispatchers = [dispatcher_producer(number) for number in range(plan.dispatchers)]
    return [*units, *dispatchers, *(merger_producer(number) for number in range(plan.mergers))]


def refuse_lost_tables(
    owners: Iterable[Producer],
    client: LogClient,
    control: Control,
    prefix: str,
    turned: Callable[[], None] = lambda: None,
    seen_s: float = SEEN_S,
) -> None:
    """No unit runs before there is a table. So where one has come further than its first progress and there is none, it
    is lost, and with it how the query began and how often each of its units: a query begun anew there would be another
    beside the state of this one. Called before anything is written, since whoever restores what is lost must find the
    rest as it was."""
    for owner in () if control.table(None) is not None else owners:
        turned()
        if not _has_moved(client.read_progress(owner)):
            continue
        deadline = time.monotonic() + seen_s  # another may have founded it a moment ago
        while control.table(None) is None:
            if time.monotonic() >= deadline:
                raise Refused(
                    f"the query {prefix} has begun, as the progress of {owner} in Kafka shows, and its routing tables "
                    "are gone from the control port: restore what stood there, or begin the query anew under another "
                    "name (BICLIQUE_PREFIX)"
                )
            turned()
            time.sleep(LOOK_S)
        return


def _has_moved(progress: Progress | None) -> bool:
    match progress:
        case DispatcherProgress(epoch=epoch, offset=offset):
            return epoch > 0 or offset > 0
        case JoinerProgress(frontier=frontier) | MergerProgress(frontier=frontier):
            return frontier >= 0
        case _:
            return False


def publish_first(control: Control, table: RoutingTable, prefix: str) -> None:
    """Of several tiers of one query, one is quicker, and the others find what they would have written."""
    try:
        control.publish(table)
    except OutOfTurn:
        if control.table(0) != table:
            raise Refused(
                f"another manifest, with other units, has begun a query under the prefix {prefix} at the same moment: "
                "stop its tiers, or begin this one under another BICLIQUE_PREFIX and with another BICLIQUE_CONTROL"
            ) from None


def begin_owners(
    plan: Plan,
    client: LogClient,
    table: RoutingTable,
    end_of: Callable[[UnitId], int],
    places: Places,
    turned: Callable[[], None] = lambda: None,
) -> None:
    """The first progress of every owner is there when this returns, whoever wrote it. `places`: behind which the
    sources' partitions begin (hosts/shuffle/starts.py); each is one dispatcher's, so each is chosen once."""
    for unit in table.units():
        _until(str(unit), partial(_born, client, unit, table, end_of(unit)), turned)
    senders = table.units_of_stage(len(plan.stages) - 1)
    first: dict[Producer, Progress] = {}
    for number in range(plan.dispatchers):
        mine = {key: place for key, place in places.items() if dispatcher_of(key, plan.dispatchers) == number}
        first[dispatcher_producer(number)] = DispatcherProgress(last=mine)
    first |= {merger_producer(number): MergerProgress(senders=senders) for number in range(plan.mergers)}
    for owner, progress in first.items():
        _until(str(owner), partial(_begun, client, owner, progress), turned)


def _until(who: str, begun: Callable[[], bool], turned: Callable[[], None]) -> None:
    """Of several that begin the same owner at once, each fences the one before and the last one's commit counts; so one
    that was fenced looks again, after a while of its own length."""
    for attempt in range(ATTEMPTS):
        turned()
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
