"""Where a process stands, by name; and strikes there: in a share of the seeds, and without moving any other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from biclique.tiers.effects import (
    Commit,
    Effect,
    GetBlob,
    Outcome,
    Publication,
    PublishManifest,
    PutBlob,
    Read,
    Rest,
)
from biclique.tiers.joiner import Joiner
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Address, Producer, Topic
from biclique.tiers.progress import Cursor, JoinerProgress, Manifest
from tests.simulation.coverage import KINDS
from tests.simulation.points import PAIRS, WHERE, Fault, Point, Stage, points_of
from tests.simulation.runs import run_of
from tests.simulation.strikes import SHARE, Strikes
from tests.simulation.world import World

JOINER, DISPATCHER, MERGER = (Producer(tier, "0") for tier in ("joiner", "dispatcher", "merger"))
SIGNALS = Address(Topic.SIGNALS, 0)


@dataclass
class Standing:
    producer: Producer
    effect: Effect | None
    stage: Stage | None = None
    last: tuple[Effect | None, Any] = (None, None)
    half: bool = False
    trimmed: bool = False
    watch: Watch = field(default_factory=Watch)


def commit(producer: Producer, progress: JoinerProgress | None = None) -> Commit:
    return Commit(producer, producer, (), progress or JoinerProgress(offset=0))


MIDWAY = JoinerProgress(offset=0, cursor=Cursor(1, 2, 3, (4,)))


@pytest.mark.parametrize(
    ("standing", "points"),
    [
        (Standing(DISPATCHER, commit(DISPATCHER)), [Point.P5]),
        (Standing(DISPATCHER, commit(DISPATCHER), Stage.SENDING), [Point.P6]),
        (Standing(DISPATCHER, commit(DISPATCHER), Stage.ASKED), [Point.P10]),
        (Standing(DISPATCHER, Read(SIGNALS, 0, 1)), []),
        (Standing(JOINER, commit(JOINER)), [Point.P7]),
        (Standing(JOINER, commit(JOINER, MIDWAY)), [Point.P8]),
        (Standing(JOINER, commit(JOINER), half=True), [Point.P8]),
        (Standing(JOINER, commit(JOINER, MIDWAY), Stage.SENDING), [Point.P9]),
        (Standing(JOINER, commit(JOINER), Stage.ASKED), [Point.P10]),
        (Standing(JOINER, Rest(1), last=(commit(JOINER), Outcome.COMMITTED)), [Point.P11]),
        (Standing(JOINER, Rest(1), last=(commit(JOINER), Outcome.UNKNOWN)), []),
        (Standing(JOINER, PutBlob("b", b"")), [Point.P12]),
        (Standing(JOINER, PublishManifest(JOINER, Manifest(1, 0, 0, 0, ()))), [Point.P13]),
        (Standing(JOINER, Rest(1), last=(None, Publication.PUBLISHED)), [Point.P14]),
        (Standing(JOINER, Rest(1), trimmed=True), [Point.P15]),
        (Standing(JOINER, GetBlob("b")), [Point.P16]),
        (Standing(MERGER, commit(MERGER)), [Point.P20]),
        (Standing(MERGER, commit(MERGER), Stage.SENDING), [Point.P9, Point.P20]),
    ],
)
def test_a_process_stands_at_a_point_that_has_a_name(standing: Standing, points: list[Point]) -> None:
    assert points_of(standing) == points


def test_a_replaying_unit_is_told_from_one_that_reads_on() -> None:
    seen = Counter[bool]()
    world = World(3)
    for _ in range(world.scenario.actions):
        world.act()
        for process in world.processes.values():
            if isinstance(process.watch.joiner, Joiner) and isinstance(process.effect, Read):
                assert (Point.P17 in points_of(process)) == process.watch.joiner.replaying
                seen[process.watch.joiner.replaying] += 1
    assert seen[True] and seen[False]


def test_the_matrix_has_every_point_and_every_fault_and_all_of_it_is_asked_for() -> None:
    assert {point for points in WHERE.values() for point in points} == set(Point)
    assert set(WHERE) == set(Fault)
    assert set(PAIRS) <= set(KINDS) and len(set(PAIRS)) == len(PAIRS) == 1 + sum(map(len, WHERE.values()))


def test_a_share_of_the_seeds_is_struck_at_its_points() -> None:
    struck = [seed for seed in range(200) if Strikes(World(seed)).rng is not None]
    assert abs(len(struck) / 200 - SHARE) < 0.06
    found = Counter[str]()
    for seed in struck[:6]:
        verdict, _ = run_of(seed)
        assert verdict.passed, verdict.violations
        found.update(verdict.happened)
    assert sum(found[name] > 0 for name in PAIRS) > len(PAIRS) / 2
