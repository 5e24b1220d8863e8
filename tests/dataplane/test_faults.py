"""A few faults on real processes while a query flows, of those that `make chaos` has all of: nothing is lost, nothing
doubled, nothing late that was not late, and everything recovers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.brief import BRIEF_SETTING, brief
from tests.chaos.report import summary
from tests.chaos.run import Outcome, play
from tests.chaos.schedule import named
from tests.chaos.stage import GROUPED, PAIRS, Shape
from tests.chaos.trimmed import STRUCK

# Every run starts servers of its own: it kills them.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("redis_program", "kafka_program")]


def judged(outcome: Outcome) -> None:
    told = summary([outcome])
    print(told)
    assert not outcome.wrong, told
    assert outcome.results and outcome.late and outcome.dead, told


def test_pairs_survive_a_few_faults_of_every_kind(tmp_path: Path) -> None:
    judged(play(tmp_path, PAIRS, brief(BRIEF_SETTING.seed), BRIEF_SETTING, print))


@pytest.mark.long
def test_groups_survive_the_death_of_their_merger(tmp_path: Path) -> None:
    due = named(1, GROUPED, [("Python worker", "merger"), ("all its processes", "merger"), ("truncated", "merger")])
    judged(play(tmp_path, GROUPED, due, BRIEF_SETTING, print))


@pytest.mark.long
@pytest.mark.parametrize("shape", [PAIRS, GROUPED], ids=lambda shape: shape.name)
def test_a_log_that_was_trimmed_too_far_stops_its_reader_and_makes_nothing_untrue(tmp_path: Path, shape: Shape) -> None:
    due = named(13, shape, [("Python worker", "dispatcher")])
    outcome = play(tmp_path, shape, due, replace(BRIEF_SETTING, trimmed=True), print)
    judged(outcome)
    assert [stopped.tier for stopped in outcome.stopped] == list(STRUCK[shape.name])
