"""A tier's Spark application: one job of one task for each unit, as long-lived as the query.

Placement is Spark's: in `local[n]` the tasks are Python processes of this machine, elsewhere executor pods. Spark's own
retries of a task are off: a unit that ends is started again here, as a new job, as its ending (ending.py) and its
budget (restarts.py) say. A unit that cannot be kept running ends the tier: the others wait for it sooner or later, and
a tier that looks alive and does nothing helps nobody.

A driver that was thought dead may come back: it stood still, or was cut off. Its successor has the greater attempt.
Whoever is superseded starts no unit any more, so it cannot take the fence from its successor, and ends; who is not, and
lost a unit to a fence, starts it again. So whatever the two did meanwhile, the newer one runs in the end.

A driver that is to stop, or one of whose units has ended since it was to, ends with all of them (stop.py).
"""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from biclique.hosts.logs import begin_logging
from biclique.hosts.units.ending import Ending, Kind
from biclique.hosts.units.process import run_unit
from biclique.hosts.units.restarts import Restarts, Saying
from biclique.hosts.units.spec import UnitSpec
from biclique.hosts.units.stop import Stop
from biclique.ports.control import Condition, State
from biclique.ports.refusals import Refused, StartAnew
from biclique.query.compile import compile_manifest
from biclique.tiers.effects import End

LOG = logging.getLogger(__name__)
LOOK_S = 0.5  # between two looks at whether a later driver has been started
STOP_S = 10.0  # that units have to come to the end of a transaction when they are to stop
JAVA_ENDS_S = 0.5


class TierStopped(Refused):
    """The tier has stopped, and nothing is lost; the sentence says why, and what to do about it."""


class TierFailed(TierStopped, StartAnew):
    """Not for what a person must mend first."""


JAVA_GONE = TierFailed("Spark's Java process has ended; start the tier again, and it goes on from its progress")
SPARK_STOPPED = TierFailed(
    "Spark has stopped by itself, as when too many executors failed; see what they wrote, and start the tier again: it"
    " goes on from its progress"
)


class Jobs(Protocol):
    """Where units run: `SparkJobs`, or threads in a test."""

    def run(self, spec: UnitSpec) -> Ending:
        """One run of a unit, to its end. Raises whatever broke it."""

    def cancel(self) -> None:
        """Every run ends soon."""


def reason_of(error: Exception) -> str:
    """What broke a task, in one line. Spark tells a Python exception with its traceback, between two of Java's."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    told = next(
        (n for n, line in enumerate(lines) if line.rstrip().endswith("Traceback (most recent call last):")), None
    )
    if told is not None:
        lines = [line for line in lines[told + 1 :] if line and not line[0].isspace()] or lines
    elif (aborted := next((line for line in lines if "most recent failure" in line), None)) is not None:
        lines = [aborted.rpartition("Exception: ")[2]]  # the task itself fell: its worker, its executor
    elif len(lines) > 1 and lines[1].startswith(": "):
        lines = [lines[1].removeprefix(": ")]  # behind which call it was, Java's own words
    return lines[0].strip()[:500]


def run_specs(specs: Iterator[str]) -> Iterator[str]:
    """What a task does: one unit."""
    for text in specs:
        spec = UnitSpec.from_json(text)
        begin_logging(compile_manifest(spec.manifest).name, spec.tier, spec.name)
        LOG.info("the unit begins", extra={"event": "unit.started"})
        yield run_unit(spec).to_json()


class SparkJobs:
    """`context`: a SparkContext with a slot for each unit."""

    def __init__(self, context: object) -> None:
        self._context = context

    def run(self, spec: UnitSpec) -> Ending:
        try:
            (ended,) = self._context.parallelize([spec.to_json()], 1).mapPartitions(run_specs).collect()  # type: ignore[attr-defined]
        except Exception:  # Py4J's own says of a Java that has ended only that it does not answer
            raise_if_gone(self._context)
            raise
        return Ending.from_json(ended)

    def cancel(self) -> None:
        if not java_is_gone(self._context):
            self._context.cancelAllJobs()  # type: ignore[attr-defined]


def raise_if_gone(context: object) -> None:
    """Whatever Spark says when it is not there any more, the sentence is one."""
    if java_is_gone(context):
        raise JAVA_GONE from None
    if context._jsc.sc().isStopped():  # type: ignore[attr-defined]
        raise SPARK_STOPPED from None


def java_is_gone(context: object) -> bool:
    """The driver's own, where this process has started it: with it, all that it could still ask Spark for. It may be a
    moment before the system says so."""
    process = getattr(context._gateway, "proc", None)  # type: ignore[attr-defined]
    if process is None:
        return False
    try:
        process.wait(JAVA_ENDS_S)
    except subprocess.TimeoutExpired:
        return False
    return True


class TierDriver:
    """`superseded`: whether a later driver of this tier has been started. `tell`: the control port's, for what a unit
    that does not run cannot say itself. `ended`: a run of a unit has, why, and whether for good. `place`: how far a
    unit has come by what it has committed, to be compared; None: not known now."""

    def __init__(
        self,
        jobs: Jobs,
        specs: Sequence[UnitSpec],
        stop: Stop,
        superseded: Callable[[], bool],
        tell: Callable[[str, Condition | None], None] = lambda name, condition: None,
        place: Callable[[UnitSpec], object] = lambda spec: None,
        ended: Callable[[str, str, bool], None] = lambda name, why, for_good: None,
    ) -> None:
        self._jobs, self._specs, self._stop, self._superseded = jobs, specs, stop, superseded
        self._tell, self._place, self._run_ended = tell, place, ended
        self._lock = threading.Lock()
        self._failure: TierStopped | None = None
        self._start_anew = False
        self._ended, self._cancelled = threading.Event(), False
        self._stop_by: float | None = None
        self.left: set[str] = set()  # units that the routing table names no more, and that have said their last word

    def run(self) -> None:
        """Until every unit has ended, or a later driver has been started. Raises TierStopped when a unit cannot be kept
        running."""
        threads = [threading.Thread(target=self._look_after, args=(spec,), name=spec.name) for spec in self._specs]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                self._look()
                next(thread for thread in threads if thread.is_alive() or thread is threads[-1]).join(LOOK_S)
                if not self._ended.is_set() and self._superseded():
                    told = {"event": "tier.superseded"}
                    LOG.warning("a later driver of this tier has been started, so this one ends", extra=told)
                    self._end()
        except BaseException:
            self._end()  # the threads are no daemons: they would start units, and this process not end
            raise
        if self._failure is not None:
            raise self._failure

    def _look(self) -> None:
        """Whether it is to stop. Units see that, too, where they look; who has not come to an end after a while is not
        waited for: his successor fences what he left open."""
        if not self._stop():
            return
        now = time.monotonic()
        if self._stop_by is None:
            self._stop_by = now + STOP_S
            self._ended.set()  # nobody begins again
        elif now >= self._stop_by and not self._cancelled:
            LOG.warning("units that have not stopped in %.0f s are ended", STOP_S, extra={"event": "units.cancelled"})
            self._end()

    def _end(self) -> None:
        self._cancelled = True
        self._ended.set()
        self._jobs.cancel()

    def _look_after(self, spec: UnitSpec) -> None:
        """Whatever ends this thread ends the tier: nobody would start the unit again."""
        try:
            self._keep(spec)
        except Exception as error:  # of the control port's place, as a disk that is full
            self._give_up(f"{spec.tier} {spec.name}", f"is not looked after any more: {reason_of(error)}", TierFailed)

    def _keep(self, spec: UnitSpec) -> None:
        restarts, saying, unit, last_place = Restarts(), Saying(), f"{spec.tier} {spec.name}", None
        while not self._ended.is_set():
            began = time.monotonic()
            ending, why = self._run_once(replace(spec, halvings=restarts.halvings))
            if ending is Kind.OVER and why == End.STOPPED.value:
                self._stop.heard()
            if self._stop() or self._ended.is_set() or self._superseded():
                return
            ran_s = time.monotonic() - began
            self._run_ended(unit, why, ending is Kind.OVER and why == End.LEFT.value)
            if ending in (Kind.FENCED, Kind.REPEAT, Kind.LATE, None) and ran_s >= restarts.budget.healthy_s:
                place = self._place(spec)
                if place is not None and place == last_place:
                    ran_s = 0.0  # all that it has done is to replay what is there already
                last_place = place
            match ending:
                case Kind.OVER:
                    if why == End.LEFT.value:
                        self.left.add(spec.name)
                    LOG.info("%s has ended: %s", unit, why, extra={"event": "unit.ended", "of": unit, "why": why})
                    return
                case Kind.MEND:
                    self._give_up(unit, f"has stopped: {why}", TierFailed if self._start_anew else TierStopped)
                    return
                case Kind.WAIT:
                    self._tell(unit, Condition(State.WAITS, why))
                    wait_s: float | None = restarts.after_wait(ran_s)
                case Kind.LATE:
                    self._tell(unit, Condition(State.WAITS, why))
                    wait_s = restarts.after_late(ran_s)
                case Kind.FENCED:
                    wait_s = restarts.after_failure(ran_s)
                case Kind.REPEAT:
                    wait_s = restarts.after_unknown(ran_s)
                case None:
                    wait_s = restarts.after_failure(ran_s)
            if wait_s is None:
                count = restarts.used + 1
                self._give_up(unit, f"has failed {count} times in a row, and is not started again: {why}", TierFailed)
                return
            if saying.is_due(why, time.monotonic()):
                told = {"event": "unit.restart", "of": unit, "wait_s": wait_s, "why": why}
                LOG.warning("%s starts again in %.1f s: %s", unit, wait_s, why, extra=told)
            self._ended.wait(wait_s)

    def _run_once(self, spec: UnitSpec) -> tuple[Kind | None, str]:
        """None: it failed."""
        try:
            ending = self._jobs.run(spec)
        except Refused as stop:
            self._start_anew |= isinstance(stop, StartAnew)
            return Kind.MEND, str(stop)
        except Exception as error:  # whatever broke the task: its executor, its Python worker, or its own exception
            return None, reason_of(error)
        return ending.kind, ending.why

    def _give_up(self, unit: str, why: str, kind: type[TierStopped]) -> None:
        with self._lock:
            if self._failure is None:
                self._failure = kind(f"{unit} {why}")
        self._end()
        self._tell(unit, Condition(State.STOPPED, f"it {why}"))
