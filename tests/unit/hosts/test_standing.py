"""What a unit shows of itself: the same numbers for telemetry and for its driver's status."""

from __future__ import annotations

import time
from typing import Any

from biclique.hosts.units.standing import Clocks, Standing, rows_of
from biclique.ports.reports import Figures, Report, sums
from biclique.tiers.effects import Consult, Fence, Fetched, Orders, Publication, PublishManifest, Read, Rest
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Address, Producer, Signal, Topic
from biclique.tiers.progress import Manifest
from tests.unit.tiers.building import plan, source_block

JOIN = "SELECT r.v AS a, s.v AS b FROM r JOIN s ON r.k = s.k"
SECOND = 1_000_000_000
SIGNAL = Signal(Producer("dispatcher", "0"), 1, 1, False, 0, 1, False)
INPUT = Address(Topic.SHUFFLED, 0)


class Unit:
    """A dispatcher's effects, at a clock that is moved by hand."""

    def __init__(self, tier: str = "dispatcher") -> None:
        self.now = 0
        self.standing = Standing(plan(JOIN), tier, Watch(), Clocks(lambda: self.now, time.time_ns))

    def does(self, effect: Any, answer: Any, seconds: float = 0.0) -> None:
        began, self.now = self.now, self.now + round(seconds * SECOND)
        self.standing.follow(effect, answer, began, self.now)

    def turn(self) -> None:
        self.does(Consult(), Orders())


def test_before_its_first_turn_a_unit_shows_that_it_has_not_turned() -> None:
    unit = Unit()
    assert unit.standing.report().turned_s is None
    unit.turn()
    unit.now += 3 * SECOND
    assert unit.standing.report().turned_s == 3.0


def test_it_shows_whose_answer_it_waits_for() -> None:
    standing = Unit().standing
    seen: list[str] = []

    def perform(effect: object) -> object:
        seen.append(standing.report().awaits)
        return Orders() if isinstance(effect, Consult) else Publication.PUBLISHED

    performed = standing.following(perform)
    performed(PublishManifest(Producer("joiner", "0L0.0"), Manifest(1, 1, 1, 1, ())))
    performed(Consult())
    performed(Fence(Producer("joiner", "0L0.0")))
    assert seen == ["the checkpoint store", "", "Kafka"]
    assert standing.report().awaits == ""


def test_rate_lag_and_load() -> None:
    unit = Unit()
    unit.turn()
    for offset in range(10):
        block = source_block([2 * offset, 2 * offset + 1])
        unit.does(Read(INPUT, offset, 1), Fetched(((offset, block),), offset + 1, 0, 16), 0.25)
        unit.does(Rest(750), None, 0.75)
        unit.turn()
    figures = unit.standing.report().figures
    assert figures.rate_rows_s == 2.0
    assert figures.lag_rows == 12, "six offsets, and two rows in each so far"
    assert figures.load == 0.25
    assert figures.checkpoint_age_s is None
    other = Read(Address(Topic.SIGNALS, 0), 0, 1)
    unit.does(other, Fetched((), 0, 0, 99))
    assert unit.standing.report().figures.lag_rows == 12, "its own input's alone"


def test_a_checkpoints_age_is_that_of_the_last_one_that_was_published() -> None:
    unit, publish = Unit("joiner"), PublishManifest(Producer("joiner", "0L0.0"), Manifest(1, 1, 1, 1, ()))
    unit.does(publish, Publication.UNAVAILABLE, 5)
    assert unit.standing.report().figures.checkpoint_age_s == 5.0, "since the start"
    unit.does(publish, Publication.PUBLISHED, 1)
    unit.now += 2 * SECOND
    assert unit.standing.report().figures.checkpoint_age_s == 2.0


def test_rows_of_what_is_read() -> None:
    assert rows_of(source_block([1, 2, 3])) == 3
    assert rows_of(SIGNAL) == 0


def test_a_report_travels_as_json_and_figures_add_up() -> None:
    report = Report(5, 0.5, Figures(1.0, 2, 3, 4, 5.0, 0.6), "Kafka")
    assert Report.from_json(report.to_json()) == report
    other = Figures(rate_rows_s=1.5, checkpoint_age_s=1.0)
    assert sums([report.figures, other, Figures()]) == Figures(2.5, 2, 3, 4, 5.0, 0.6)
    assert sums([]) == Figures()
