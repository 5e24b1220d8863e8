"""A unit that lags behind, with bounds so small that it comes over all of them: it holds and handles no more than they
allow, and its output is that of a unit without bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from biclique.core.rows import Rows
from biclique.core.stamps import stamp_base
from biclique.hosts.perform import Performer, start_unit
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog, MemoryStore
from biclique.routing.protocol import Role
from biclique.routing.table import UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, Consult, Orders, PublishManifest, PutBlob, Rest
from biclique.tiers.inbox import HeldMax
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.loops import ReadLimits, Watch, joiner_loop
from biclique.tiers.messages import Address, Block, Record, Results, Topic, unit_address
from biclique.tiers.progress import JoinerProgress
from biclique.tiers.state import BlobRows
from tests.unit.tiers.building import plan, rows, signal

JOIN = "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k"
EPOCHS, ROWS = 40, 3


@dataclass
class Peak:
    """The most that was held or sent at once."""

    rows: int = 0
    bytes: int = 0
    matches: int = 0
    transactions: int = 0
    blob_bytes: int = 0
    manifests: int = 0
    turns: int = 0  # that put any


def lagging(made: Plan, unit: UnitId, domain: int) -> list[Record]:
    """Two dispatchers send for a while; the signals of the second come after all blocks."""
    rng = np.random.default_rng(5)
    found: list[Record] = []
    late: list[Record] = []
    for epoch in range(1, EPOCHS + 1):
        for number in range(2):
            sender = dispatcher_producer(number)
            for side in range(2):
                columns = [rng.integers(0, domain, ROWS).tolist() for _ in made.stages[0].sides[side].columns]
                part = rows([epoch] * ROWS, [0] * ROWS, *columns)
                base = np.uint64(stamp_base(0, number) + 100 * side)
                stamps = part.stamps + base
                part = Rows(stamps, (stamps.astype(np.int64),), part.newest, part.oldest, part.columns)
                role = Role.STORE if side == unit.subgroup.side else Role.PROBE
                found.append(Block(0, side, role, sender, epoch, part))
            (found if number == 0 else late).append(signal(sender, epoch))
    return [*found, *late]


def run(
    made: Plan, limits: JoinerLimits, domain: int = 4, crash_every: int = 0, seal: bool = False, reads: int = 64
) -> tuple[list[tuple[int, int]], Peak]:
    """Result ids in the order of the output, and the peak. `crash_every`: so many commits, then a new incarnation."""
    made = replace(made, dispatchers=2)
    table = first_table(made)
    unit = table.units_of_stage(0)[0]
    log, store, peak = MemoryLog(), MemoryStore(), Peak()
    start_unit(log.client(), unit, table, 0)
    log.append(unit_address(unit), lagging(made, unit, domain))
    while not _life(made, unit, limits, log, store, peak, crash_every, seal, reads):
        pass
    output = log.client().read(Address(Topic.OUTPUT, str(unit)), 0, 1 << 30)
    results = [record for _, record in output.records]
    peak.matches = max((len(r.ids_high) for r in results if isinstance(r, Results)), default=0)
    return [pair for r in results if isinstance(r, Results) for pair in _ids(r)], peak


def _ids(results: Results) -> Iterator[tuple[int, int]]:
    return zip(results.ids_high.tolist(), results.ids_low.tolist(), strict=True)


def _life(
    made: Plan,
    unit: UnitId,
    limits: JoinerLimits,
    log: MemoryLog,
    store: MemoryStore,
    peak: Peak,
    crash_every: int,
    seal: bool,
    reads: int,
) -> bool:
    """One incarnation. True: it rests, with everything handled; False: it was killed."""
    table, watch, client, commits = first_table(made), Watch(), log.client(), 0
    perform = Performer(client, store, lambda _: table, Orders, lambda: 0, lambda _: None)
    loop = joiner_loop(made, unit, limits, ReadLimits(unit_records=reads), watch)
    effect, put = next(loop), 0
    while not isinstance(effect, Rest):
        if isinstance(effect, Consult):
            put = 0
        if isinstance(effect, PutBlob):
            peak.turns += not put
            put += 1
            peak.blob_bytes = max(peak.blob_bytes, len(effect.data))
        peak.manifests += isinstance(effect, PublishManifest)
        answer = Orders(seal=seal) if isinstance(effect, Consult) else perform(effect)
        if isinstance(effect, Commit):
            commits, peak.transactions = commits + 1, peak.transactions + 1
            if commits == crash_every:
                return False
        effect = loop.send(answer)
        if watch.joiner is not None:
            peak.rows = max(peak.rows, watch.joiner.inbox.rows_held)
            peak.bytes = max(peak.bytes, watch.joiner.inbox.bytes_held)
    progress = client.read_progress(dispatcher_producer(0)._replace(tier="joiner", name=str(unit)))
    assert isinstance(progress, JoinerProgress) and progress.frontier == EPOCHS
    return True


@pytest.fixture(scope="module")
def unbounded() -> list[tuple[int, int]]:
    found, peak = run(plan(JOIN), JoinerLimits())
    assert len(set(found)) == len(found) > 1000 and peak.rows == EPOCHS * 2 * 2 * ROWS
    return sorted(found)


@pytest.mark.parametrize("reads", [1, 7, 64])
@pytest.mark.parametrize("held_max", [HeldMax(rows=24), HeldMax(bytes=24 * 40), HeldMax(0, 0)])
def test_what_is_held_is_within_the_budget_however_far_it_lags(
    held_max: HeldMax, reads: int, unbounded: list[tuple[int, int]]
) -> None:
    found, peak = run(plan(JOIN), JoinerLimits(held_max=held_max), reads=reads)
    assert sorted(found) == unbounded
    epoch_rows = 4 * ROWS  # of one epoch, which is handled whole
    assert peak.rows <= max(held_max.rows, epoch_rows)
    assert peak.bytes <= max(held_max.bytes, epoch_rows * 48)


@pytest.mark.parametrize("seal", [False, True])
@pytest.mark.parametrize("crash_every", [1, 2, 5])
def test_a_replay_is_within_the_budget_too(crash_every: int, seal: bool, unbounded: list[tuple[int, int]]) -> None:
    limits = JoinerLimits(held_max=HeldMax(rows=20), blob_rows=BlobRows(2, 5))
    found, peak = run(plan(JOIN), limits, crash_every=crash_every, seal=seal)
    assert sorted(found) == unbounded
    assert peak.rows <= 20


def test_a_blob_is_bounded_in_bytes(unbounded: list[tuple[int, int]]) -> None:
    wide = run(plan(JOIN), JoinerLimits(), seal=True)[1].blob_bytes
    limits = JoinerLimits(blob_rows=BlobRows(1, 1000, 600), held_max=HeldMax(rows=20))
    found, peak = run(plan(JOIN), limits, crash_every=7, seal=True)
    assert sorted(found) == unbounded
    assert peak.blob_bytes < wide / 3, "beside the rows there is Arrow's frame"


@pytest.mark.parametrize("crash_every", [0, 7])
def test_a_checkpoint_of_a_large_state_is_made_between_turns(
    crash_every: int, unbounded: list[tuple[int, int]]
) -> None:
    """A turn puts a few blobs and the next one twice as many: for all that comes in meanwhile, it comes to an end."""
    limits = JoinerLimits(blob_rows=BlobRows(1, 2), held_max=HeldMax(rows=20), seal_blobs=1)
    found, peak = run(plan(JOIN), limits, crash_every=crash_every, seal=True)
    assert sorted(found) == unbounded
    assert peak.manifests > 0
    assert peak.turns > peak.manifests
