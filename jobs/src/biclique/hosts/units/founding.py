"""How a query begins, once: topics, the first progress of every owner, and only then the first routing table.

The table is the sign that all of it is there. A unit that finds a table and no progress of its own has therefore lost
it, and stops loudly: beginning anew would lose or double results. Whichever tier starts first does this; several may do
it at once, and one that dies half-way leaves it to the next.
"""

from __future__ import annotations

from biclique.hosts.perform import start_unit
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control import Control, OutOfTurn
from biclique.ports.kafka_log import KafkaClient, KafkaLog
from biclique.ports.kafka_topics import ensure_topics, topics_of
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Producer, unit_address
from biclique.tiers.progress import DispatcherProgress, MergerProgress, Progress


def found(plan: Plan, log: KafkaLog, control: Control, replication: int, units_max: int) -> None:
    if control.table(None) is not None:
        return
    table, prefix = first_table(plan), log.settings.prefix
    ensure_topics(dict(log.settings.client), topics_of(plan, prefix, units_max), replication)
    client = log.client()
    try:
        for unit in table.units():
            start_unit(client, unit, table, log.bounds(unit_address(unit)).end)
        for number in range(plan.dispatchers):
            _begin(client, dispatcher_producer(number), DispatcherProgress())
        senders = table.units_of_stage(len(plan.stages) - 1)
        for number in range(plan.mergers):
            _begin(client, merger_producer(number), MergerProgress(senders=senders))
    finally:
        client.close()
    try:
        control.publish(table)
    except OutOfTurn:
        if control.table(0) != table:
            raise  # else: another tier was quicker


def _begin(client: KafkaClient, owner: Producer, progress: Progress) -> None:
    """Looked at once more behind the fence: who comes late leaves what another has begun as it is."""
    if client.read_progress(owner) is not None:
        return
    client.fence(owner)
    if client.read_progress(owner) is None:
        client.commit(Commit(owner, owner, (), progress))  # whatever came of it, the next look tells
