"""What a restarted unit may do before it has read its log again, and one whose log is gone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import stamp_base
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.routing.protocol import Role
from biclique.routing.table import RoutingTable
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Consult, End, Fence, Fetched, LoadManifests, Orders, Read, ReadProgress, ReadTable
from biclique.tiers.inbox import HeldMax, joiner_producer
from biclique.tiers.joiner import Joiner
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.loops import joiner_loop
from biclique.tiers.messages import Block, Producer, Record
from biclique.tiers.progress import JoinerProgress, start_of
from tests.unit.tiers.building import plan, signal

CASCADE = "SELECT r.v AS v FROM r JOIN s ON r.k = s.k JOIN t ON s.v = t.v"
PAIRS = "SELECT r.v AS v FROM r JOIN s ON r.k = s.k"


def stored_block(plan: Plan, stage: int, sender: Producer, epoch: int, count: int) -> Block:
    """Rows of side 0."""
    side = plan.stages[stage].sides[0]
    stamps = stamp_base(epoch, 0) + np.arange(count, dtype=np.uint64)
    ids = tuple(np.arange(count, dtype=np.int64) for _ in side.relations)
    times = np.zeros(count, np.int64)
    columns = tuple(Vector(np.zeros(count, np.int32 if c.type.bits == 32 else np.int64)) for c in side.columns)
    return Block(stage, 0, Role.STORE, sender, epoch, Rows(stamps, ids, times, times, columns))


def read(joiner: Joiner, log: list[Record], to: int) -> None:
    for offset in range(joiner.next_offset, to):
        joiner.take(offset, log[offset])
        joiner.read_to(offset + 1)


def act(joiner: Joiner, table: RoutingTable) -> None:
    while (silent := joiner.rebuild_to(table)) is not None:
        joiner.rebuild(silent)
    if (frontier := joiner.reach(table)) is not None:
        for turn in joiner.step(frontier, table):
            joiner.committed(turn)


@pytest.mark.parametrize("read_first", range(9))
def test_blocks_of_a_sender_that_left_are_replayed_silently_and_before_a_checkpoint(read_first: int) -> None:
    """Its blocks come behind what the others said, and of its farewell the progress knows no more."""
    cascade = plan(CASCADE, "rst", extra="  joiners: {replicas: 2}")
    table = first_table(cascade)
    stage0 = table.units_of_stage(0)
    unit = next(u for u in table.units_of_stage(1) if u.subgroup.side in (0, 2))
    *stay, leaver = map(joiner_producer, stage0)
    others = [*map(dispatcher_producer, range(cascade.dispatchers)), *stay]
    log: list[Record] = [signal(sender, 5) for sender in others]
    log += [stored_block(cascade, 1, leaver, 3, 4), signal(leaver, 4), signal(leaver, 4, ended=True)]
    joiner = Joiner(cascade, unit, start_of(unit, table, 0), None, JoinerLimits())
    read(joiner, log, len(log))
    act(joiner, table)
    assert joiner.frontier == 5 and joiner.counters.stored == 4

    again = Joiner(cascade, unit, joiner.progress, None, JoinerLimits())
    read(again, log, read_first)
    act(again, table)
    assert again.replaying
    read(again, log, len(log))
    act(again, table)
    assert not again.replaying
    assert sum(ref.rows for ref, _ in again.seal(2, 1)) == 4 == again.states[0].rows
    log += [signal(sender, 9) for sender in others]
    read(again, log, len(log))
    act(again, table)
    assert again.frontier == 9 and again.counters.stored == 0, "nothing of the replay is news"


def test_a_unit_whose_shed_blocks_a_successor_has_trimmed_ends() -> None:
    """Also when nothing at all is left to be read."""
    pairs = plan(PAIRS)
    table = first_table(pairs)
    unit = next(u for u in table.units_of_stage(0) if u.subgroup.side in (0, 2))
    senders = [dispatcher_producer(n) for n in range(pairs.dispatchers)]
    log: list[Record] = [stored_block(pairs, 0, senders[0], 3, 4), *(signal(sender, 5) for sender in senders)]
    progress: JoinerProgress = start_of(unit, table, 0)
    loop = joiner_loop(pairs, unit, JoinerLimits(held_max=HeldMax(rows=2)))
    answers: dict[type, Any] = {
        Fence: 1,
        ReadProgress: progress,
        LoadManifests: (),
        Consult: Orders(),
        ReadTable: table,
    }

    def run() -> None:
        asked, trimmed = loop.send(None), False
        for _ in range(40):
            answer = answers.get(type(asked))
            if isinstance(asked, Read):
                answer = Fetched((), len(log), len(log), len(log))
                if not trimmed:
                    answer, trimmed = Fetched(tuple(enumerate(log)), len(log), 0, len(log)), True
            asked = loop.send(answer)

    with pytest.raises(StopIteration) as ended:
        run()
    assert ended.value.value is End.FENCED
