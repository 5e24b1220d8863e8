"""A tier's driver with units that end as a test says: who is started again, who is not, and what ends the tier."""

from __future__ import annotations

import logging
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable
from itertools import chain, count, repeat
from types import SimpleNamespace

import pytest

from biclique.hosts.units.driver import SparkJobs, TierDriver, TierFailed, TierStopped, reason_of
from biclique.hosts.units.ending import Ending, Kind, ending_of
from biclique.hosts.units.restarts import Budget, Restarts
from biclique.hosts.units.spec import Surroundings, UnitSpec
from biclique.hosts.units.stop import Stop
from biclique.ports.control import Condition, State
from biclique.ports.refusals import Refused, StartAnew, Undecided, Unreachable
from biclique.tiers.effects import End
from biclique.tiers.loops import MissingProgress

AROUND = Surroundings(kafka={}, redis="redis://nowhere", control="/nowhere", prefix="q")
OVER, LEFT = Ending(Kind.OVER, End.STOPPED.value), Ending(Kind.OVER, End.LEFT.value)


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
    TierDriver(jobs, [spec(name) for name in jobs.endings], Stop(lambda: stopping), superseded).run()


def test_it_ends_when_every_unit_has_ended_by_itself() -> None:
    jobs = Scripted(a=[LEFT], b=[RuntimeError("a worker died"), LEFT])
    driven(jobs)
    assert {name: len(runs) for name, runs in jobs.runs.items()} == {"a": 1, "b": 2}


def test_an_unknown_outcome_starts_again_with_smaller_transactions() -> None:
    unknown = Ending(Kind.REPEAT, "unknown outcome")
    jobs = Scripted(a=[unknown, unknown, OVER])
    driven(jobs)
    assert [run.halvings for run in jobs.runs["a"]] == [0, 1, 2]


def test_a_kafka_that_brings_no_transaction_to_an_end_is_waited_for_with_smaller_ones() -> None:
    late = Ending(Kind.LATE, "the outcome of a transaction is not known (timed out)")
    told: list[tuple[str, Condition | None]] = []
    jobs = Scripted(a=[*[late] * 20, OVER])
    TierDriver(jobs, [spec("a")], Stop(), lambda: False, lambda *now: told.append(now)).run()
    assert [run.halvings for run in jobs.runs["a"]] == list(range(21))
    assert ("joiner a", Condition(State.WAITS, late.why)) in told


def test_too_many_failures_in_a_row_end_the_tier_and_all_its_units() -> None:
    jobs = Scripted(a=[RuntimeError(f"number {n}") for n in range(9)], b=[])
    with pytest.raises(TierFailed, match=r"^joiner a has failed 9 times in a row, and is not started again: number 8$"):
        driven(jobs)
    assert jobs.cancelled.is_set()


def test_a_long_run_earns_its_budget_back_if_it_has_come_on_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """To replay a large state takes longer than what counts as a healthy run, and proves nothing."""
    monkeypatch.setattr("biclique.hosts.units.driver.Restarts", lambda: Restarts(Budget(healthy_s=1e-9)))

    def run(place: Callable[[UnitSpec], object]) -> None:
        jobs = Scripted(a=[*(RuntimeError("poison") for _ in range(20)), OVER])
        TierDriver(jobs, [spec("a")], Stop(), lambda: False, place=place).run()

    places = count()
    run(lambda spec: next(places))
    run(lambda spec: None)  # Kafka does not say
    with pytest.raises(TierFailed, match=r"^joiner a has failed 9 times in a row, .*: poison$"):
        run(lambda spec: "the same")


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
        TierDriver(jobs, [spec("a")], Stop(), lambda: False, lambda *now: told.append(now)).run()
    assert told == [
        ("joiner a", Condition(State.WAITS, "Kafka does not answer")),
        ("joiner a", Condition(State.STOPPED, "it has stopped: its progress is gone")),
    ]


def test_a_unit_that_nobody_can_look_after_any_more_ends_the_tier() -> None:
    def tell(name: str, condition: Condition | None) -> None:
        if condition is not None and condition.state is State.WAITS:
            raise OSError(28, "No space left on device", "conditions")

    jobs = Scripted(a=[Ending(Kind.WAIT, "Kafka does not answer")], b=[])
    driver = TierDriver(jobs, [spec("a"), spec("b")], Stop(), lambda: False, tell)
    with pytest.raises(TierFailed, match=r"^joiner a is not looked after any more: .*No space left on device"):
        driver.run()
    assert jobs.cancelled.is_set()


def test_a_driver_that_cannot_look_whether_it_is_superseded_leaves_no_unit_behind() -> None:
    def superseded() -> bool:
        raise OSError(5, "Input/output error", "attempts")

    jobs = Scripted(a=[], b=[])
    with pytest.raises(OSError, match="Input/output error"):
        driven(jobs, superseded=superseded)
    assert jobs.cancelled.is_set()
    for thread in threading.enumerate():
        if thread.name in jobs.endings:
            thread.join(10)
            assert not thread.is_alive()


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


def test_who_does_not_stop_when_the_tier_is_to_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a unit that heard nothing: its driver was told by a signal, and the control port says nothing."""
    monkeypatch.setattr("biclique.hosts.units.driver.STOP_S", 0.2)
    jobs = Scripted(a=[OVER], b=[])
    driven(jobs, stopping=True)
    assert jobs.cancelled.is_set()
    assert {name: len(runs) for name, runs in jobs.runs.items()} == {"a": 1, "b": 1}


class Hearing(Scripted):
    """Units that run until they hear that they are to stop, each as `hears` says of it."""

    def __init__(self, **hears: Callable[[], bool]) -> None:
        super().__init__(**{name: [] for name in hears})
        self.hears = hears

    def run(self, spec: UnitSpec) -> Ending:
        self.runs[spec.name].append(spec)
        while not self.hears[spec.name]():
            if self.cancelled.wait(0.01):
                raise RuntimeError("cancelled")
        return OVER


def test_a_stop_that_is_taken_away_again_ends_all_units_once_anybody_has_heard_it() -> None:
    """As a query that is resumed within a second: whoever asks next, the driver or a unit that asks it, is told what
    the first one was."""
    said = chain([True], repeat(False))
    stop = Stop(lambda: next(said))
    jobs = Hearing(a=stop, b=stop)
    TierDriver(jobs, [spec("a"), spec("b")], stop, lambda: False).run()
    assert stop()
    assert not jobs.cancelled.is_set()
    assert all(len(runs) <= 1 for runs in jobs.runs.values()), "nobody begins again"


@pytest.mark.parametrize("asks_its_driver", [True, False])
def test_a_stop_that_only_one_unit_has_heard_ends_the_others_too(
    asks_its_driver: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked for itself, and nothing is said any more when the others look; who asks nobody is not waited for."""
    monkeypatch.setattr("biclique.hosts.units.driver.STOP_S", 20.0 if asks_its_driver else 0.2)
    stop, begun = Stop(), threading.Event()

    def heard_by_the_other() -> bool:
        begun.set()
        return asks_its_driver and stop()

    jobs = Hearing(a=lambda: begun.wait(10), b=heard_by_the_other)
    TierDriver(jobs, [spec("a"), spec("b")], stop, lambda: False).run()
    assert stop(), "or it would be said that every unit has left"
    assert jobs.cancelled.is_set() is not asks_its_driver
    assert {name: len(runs) for name, runs in jobs.runs.items()} == {"a": 1, "b": 1}


def test_every_end_of_a_run_is_told_of_and_whether_it_was_the_last() -> None:
    ended: list[tuple[str, str, bool]] = []
    jobs = Scripted(a=[RuntimeError("its worker died"), Ending(Kind.OVER, End.LEFT.value)])
    TierDriver(jobs, [spec("a")], Stop(), lambda: False, ended=lambda *now: ended.append(now)).run()
    assert ended == [("joiner a", "its worker died", False), ("joiner a", End.LEFT.value, True)]


class GoneSpark:
    """A context whose Java has ended: whatever is asked of it fails."""

    def __init__(self) -> None:
        self._gateway = SimpleNamespace(proc=subprocess.Popen(["true"]))


def test_without_java_nothing_is_tried_again() -> None:
    with pytest.raises(TierFailed, match=r"^joiner a has stopped: Spark's Java process has ended; start the tier"):
        TierDriver(SparkJobs(GoneSpark()), [spec("a")], Stop(), lambda: False).run()


def raising(error: Exception) -> End:
    raise error


def test_how_a_run_ended_travels_as_text() -> None:
    endings = [
        ending_of(lambda: End.STOPPED),
        ending_of(lambda: End.UNKNOWN),
        ending_of(lambda: End.FENCED),
        ending_of(lambda: raising(Unreachable("away"))),
        ending_of(lambda: raising(Undecided("timed out", may_pass=True))),
        ending_of(lambda: raising(Undecided("a policy", may_pass=False))),
        ending_of(lambda: raising(Refused("too large"))),
        ending_of(lambda: raising(MissingProgress("gone"))),
    ]
    assert endings == [
        Ending(Kind.OVER, "stopped"),
        Ending(Kind.REPEAT, "unknown outcome"),
        FENCED,
        Ending(Kind.WAIT, "away"),
        Ending(Kind.LATE, "timed out"),
        Ending(Kind.REPEAT, "a policy"),
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


NO_MASTER = """An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.
: java.lang.IllegalStateException: Spark context stopped while waiting for backend
\tat org.apache.spark.scheduler.TaskSchedulerImpl.waitBackendReady(TaskSchedulerImpl.scala:1)
"""


def test_of_what_spark_says_the_exception_is_the_reason() -> None:
    assert reason_of(Exception(NO_MASTER)) == (
        "java.lang.IllegalStateException: Spark context stopped while waiting for backend"
    )
    assert reason_of(RuntimeError(SPARK_SAYS)) == "ValueError: no such thing"
    assert reason_of(RuntimeError(WORKER_DIED)) == "Python worker exited unexpectedly (crashed)."
    assert reason_of(RuntimeError("")) == "RuntimeError"
    assert reason_of(RuntimeError("one\ntwo")) == "one"
