"""A tier's driver with units that end as a test says: who is started again, who is not, and what ends the tier."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from biclique.hosts.units.driver import SparkJobs, TierDriver, TierFailed, TierStopped, reason_of
from biclique.hosts.units.ending import Ending, Kind, ending_of
from biclique.hosts.units.spec import Surroundings, UnitSpec
from biclique.ports.control import Condition, State
from biclique.ports.refusals import Refused, StartAnew, Unreachable
from biclique.tiers.effects import End
from biclique.tiers.loops import MissingProgress

AROUND = Surroundings(kafka={}, redis="redis://nowhere", control="/nowhere", prefix="q")
OVER = Ending(Kind.OVER, "stopped")


def spec(name: str) -> UnitSpec:
    return UnitSpec("", "joiner", name, AROUND)


class Scripted:
    """Runs of each unit end as told, one after the other; one that is told nothing more runs until it is cancelled."""

    def __init__(self, **endings: list[Ending | Exception]) -> None:
        self.endings, self.runs = endings, defaultdict[str, list[UnitSpec]](list)
        self.cancelled = threading.Event()

    def run(self, spec: UnitSpec) -> Ending:
        self.runs[spec.name].append(spec)
        left = self.endings[spec.name]
        if not left:
            assert self.cancelled.wait(30), "nobody has cancelled it"
            raise RuntimeError("cancelled")
        ending = left.pop(0)
        if isinstance(ending, Exception):
            raise ending
        return ending

    def cancel(self) -> None:
        self.cancelled.set()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.units.restarts.Restarts._pause", lambda self, number: 0.001)


def driven(jobs: Scripted, stopping: bool = False, superseded: Callable[[], bool] = lambda: False) -> None:
    TierDriver(jobs, [spec(name) for name in jobs.endings], lambda: stopping, superseded).run()


def test_it_ends_when_every_unit_has_ended_by_itself() -> None:
    jobs = Scripted(a=[OVER], b=[RuntimeError("a worker died"), Ending(Kind.OVER, "fenced")])
    driven(jobs)
    assert {name: len(runs) for name, runs in jobs.runs.items()} == {"a": 1, "b": 2}


def test_an_unknown_outcome_starts_again_with_smaller_transactions() -> None:
    unknown = Ending(Kind.REPEAT, "unknown outcome")
    jobs = Scripted(a=[unknown, unknown, OVER])
    driven(jobs)
    assert [run.halvings for run in jobs.runs["a"]] == [0, 1, 2]


def test_too_many_failures_in_a_row_end_the_tier_and_all_its_units() -> None:
    jobs = Scripted(a=[RuntimeError(f"number {n}") for n in range(9)], b=[])
    with pytest.raises(TierFailed, match=r"^joiner a has failed 9 times in a row, and is not started again: number 8$"):
        driven(jobs)
    assert jobs.cancelled.is_set()


def test_what_a_person_must_mend_ends_the_tier_at_once() -> None:
    jobs = Scripted(a=[Ending(Kind.MEND, "its progress is gone")], b=[])
    with pytest.raises(TierStopped, match=r"^joiner a has stopped: its progress is gone$") as stop:
        driven(jobs)
    assert not isinstance(stop.value, StartAnew)
    assert len(jobs.runs["a"]) == 1


def test_what_is_away_is_waited_for_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    away = [Ending(Kind.WAIT, "Kafka does not answer") for _ in range(50)]
    with caplog.at_level(logging.WARNING):
        driven(Scripted(a=[*away, OVER]))
    assert [record.getMessage() for record in caplog.records] == [
        "joiner a starts again in 0.0 s: Kafka does not answer"
    ]


def test_who_does_not_run_is_told_of_through_the_control_port() -> None:
    told: list[tuple[str, Condition | None]] = []
    jobs = Scripted(a=[Ending(Kind.WAIT, "Kafka does not answer"), Ending(Kind.MEND, "its progress is gone")])
    with pytest.raises(TierStopped):
        TierDriver(jobs, [spec("a")], lambda: False, lambda: False, lambda *now: told.append(now)).run()
    assert told == [
        ("joiner a", Condition(State.WAITS, "Kafka does not answer")),
        ("joiner a", Condition(State.STOPPED, "it has stopped: its progress is gone")),
    ]


def test_asked_to_stop_nothing_is_started_again() -> None:
    jobs = Scripted(a=[RuntimeError("cut off")])
    driven(jobs, stopping=True)
    assert len(jobs.runs["a"]) == 1


FENCED = Ending(Kind.FENCED, "fenced")


def test_the_newest_driver_takes_a_unit_back_from_one_that_was_thought_dead() -> None:
    jobs = Scripted(a=[FENCED, OVER])
    driven(jobs)
    assert len(jobs.runs["a"]) == 2


@pytest.mark.parametrize("ending", [FENCED, RuntimeError("cut off"), Ending(Kind.REPEAT, "unknown outcome")])
def test_a_superseded_driver_starts_nothing_again(ending: Ending | Exception) -> None:
    jobs = Scripted(a=[ending])
    driven(jobs, superseded=lambda: len(jobs.runs["a"]) == 1)
    assert len(jobs.runs["a"]) == 1


def test_a_superseded_driver_ends_though_its_units_run_on() -> None:
    jobs = Scripted(a=[], b=[])
    driven(jobs, superseded=lambda: len(jobs.runs) == 2)
    assert jobs.cancelled.is_set()


class GoneSpark:
    """A context whose Java has ended: whatever is asked of it fails."""

    def __init__(self) -> None:
        self._gateway = SimpleNamespace(proc=subprocess.Popen(["true"]))


def test_without_java_nothing_is_tried_again() -> None:
    with pytest.raises(TierFailed, match=r"^joiner a has stopped: Spark's Java process has ended; start the tier"):
        TierDriver(SparkJobs(GoneSpark()), [spec("a")], lambda: False, lambda: False).run()


def raising(error: Exception) -> End:
    raise error


def test_how_a_run_ended_travels_as_text() -> None:
    endings = [
        ending_of(lambda: End.STOPPED),
        ending_of(lambda: End.UNKNOWN),
        ending_of(lambda: End.FENCED),
        ending_of(lambda: raising(Unreachable("away"))),
        ending_of(lambda: raising(Refused("too large"))),
        ending_of(lambda: raising(MissingProgress("gone"))),
    ]
    assert endings == [
        Ending(Kind.OVER, "stopped"),
        Ending(Kind.REPEAT, "unknown outcome"),
        FENCED,
        Ending(Kind.WAIT, "away"),
        Ending(Kind.MEND, "too large"),
        Ending(Kind.MEND, "gone"),
    ]
    assert [Ending.from_json(ending.to_json()) for ending in endings] == endings
    with pytest.raises(ValueError, match="ours"):
        ending_of(lambda: raising(ValueError("ours")))


SPARK_SAYS = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 1.0: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "driver.py", line 3, in run
    raise ValueError(x)
ValueError: no such thing

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1)
Driver stacktrace:
"""


WORKER_DIED = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent \
failure: Lost task 0.0 in stage 0.0: org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).
\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handle(PythonRunner.scala:1)
"""


def test_of_what_spark_says_the_exception_is_the_reason() -> None:
    assert reason_of(RuntimeError(SPARK_SAYS)) == "ValueError: no such thing"
    assert reason_of(RuntimeError(WORKER_DIED)) == "Python worker exited unexpectedly (crashed)."
    assert reason_of(RuntimeError("")) == "RuntimeError"
    assert reason_of(RuntimeError("one\ntwo")) == "one"
