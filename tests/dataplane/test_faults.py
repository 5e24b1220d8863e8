"""A few faults on real processes while a query flows, of those that `make chaos` has all of: nothing is lost, nothing
doubled, nothing late that was not late, and everything recovers."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from infra.jars import BROKER, NoJars, jars_of
from tests.chaos.brief import BRIEF_SETTING, brief
from tests.chaos.report import summary
from tests.chaos.run import Outcome, play
from tests.chaos.schedule import named
from tests.chaos.stage import GROUPED, PAIRS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(autouse=True)
def _servers() -> None:
    """Every run starts servers of its own: it kills them."""
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server, which is not on this machine: install it, or run make servers as root")
    try:
        jars_of(BROKER)
    except NoJars as reason:
        pytest.skip(f"needs Kafka. {reason}")


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
def test_a_log_that_was_trimmed_too_far_stops_its_reader_and_makes_nothing_untrue(tmp_path: Path) -> None:
    due = named(13, PAIRS, [("Python worker", "dispatcher")])
    outcome = play(tmp_path, PAIRS, due, replace(BRIEF_SETTING, trimmed=True), print)
    judged(outcome)
    assert [stopped.tier for stopped in outcome.stopped] == ["joiner", "dispatcher", "shuffler"]
