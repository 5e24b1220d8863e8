"""A reader that starts again behind the last word of a unit that has left, and is shown an older routing table that
still names it, does not wait for it for ever."""

from __future__ import annotations

from dataclasses import replace

from biclique.hosts.perform import Performer
from biclique.hosts.scheduler import Running
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.effects import Commit, Orders
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import merger_loop
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Address, Topic
from biclique.tiers.progress import MergerProgress
from tests.unit.tiers.building import plan, signal

PLAN = plan("SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k WITHIN 10 SECONDS GROUP BY r.k")
ME, PARTIALS = merger_producer(0), Address(Topic.PARTIALS, 0)


def tables() -> tuple[tuple[UnitId, ...], UnitId, RoutingTable, RoutingTable]:
    """Those who stay, who comes with version 1 and is gone with version 2, and the two tables."""
    first = first_table(PLAN)
    stay = first.units()
    guest = UnitId(stay[0].subgroup, 7)
    probed = {**first.probes, guest.subgroup: (*first.probes[guest.subgroup], guest)}
    with_guest = replace(first, version=1, probes=probed, switch={0: 0}, stage_switch={(0, 1): 0}, born={guest: 1})
    switched = {"switch": {0: 0, 1: 0}, "stage_switch": {(0, 1): 0, (1, 1): 0}}
    return stay, guest, with_guest, replace(with_guest, version=2, probes=first.probes, **switched)


def test_a_merger_does_not_wait_for_whoever_left_before_it_started_again() -> None:
    stay, guest, older, newer = tables()
    log, store, shown = MemoryLog(), MemoryStore(), [older]
    client = log.client()
    client.fence(ME)
    client.commit(Commit(ME, ME, (), MergerProgress(senders=(*stay, guest))))

    def say(epoch: int, *units: UnitId) -> None:
        log.append(PARTIALS, [signal(joiner_producer(unit), epoch, version=1) for unit in units])

    def run() -> MergerProgress:
        orders = Orders(seal=True)
        performer = Performer(client, store, lambda _: shown[-1], lambda: orders, lambda: 0, lambda _: None)
        merging = Running("merger", merger_loop(PLAN, 0), performer)
        for turn in range(30):
            if turn == 10:
                shown.append(newer)
            merging.turn()
        progress = client.read_progress(ME)
        assert isinstance(progress, MergerProgress)
        return progress

    say(1, *stay, guest)
    log.append(PARTIALS, [signal(joiner_producer(guest), 1, version=2, ended=True)])
    assert run().frontier == 1
    say(2, *stay)
    shown.append(older)
    assert run().frontier == 2, "the older table is refused until the newer one is shown"
