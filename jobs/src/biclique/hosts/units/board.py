"""What a tier's driver knows of its units at the moment: what they report, what is told of those that do not simply
run, and whether its own loop turns. Whoever looks at the driver (server.py) is shown it.

    starting       nobody has heard of a turn of its loop lately: it begins, or begins again; why, where that is known
    runs           it has reported a turn
    stands still   it has no room, and goes on by itself
    waits          for what does not answer: who asks again and again says so itself, who stands there for long shows it
    stopped        it has ended for good: it has left, or a person must mend something

Units of a shuffler are its sources.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from biclique.hosts.logs import without_secrets
from biclique.ports.control import Condition, Pause, State
from biclique.ports.refusals import Refused, Unreachable
from biclique.ports.reports import Report, sums

RUNS, STARTING = "runs", "starting"
FRESH_S = 15.0  # how old the word of a unit that runs may be, and how long one turn may take
TURNS_S = 90.0  # the driver's own loop
# Spark's start is one turn of it, of some ten seconds of CPU: on a machine that many pods start on at once it took two
# and a half minutes, and whoever ends it then only adds one more. So long a pod may take to answer at all, too.
SPARK_STARTS, SPARK_STARTS_S = "Spark starts", 300.0


@dataclass
class _Unit:
    """`said`: why it does not run, by its driver."""

    report: Report | None = None
    heard: float = float("-inf")
    told: Condition | None = None
    said: str = ""


@dataclass
class Board:
    """Of one driver. `units`: by the names that units have at the control port, and as they are shown. `stopping`:
    whether they are to stop. `clock`: seconds, never back."""

    tier: str
    subgroup: str | None
    units: Mapping[str, str]
    stopping: Callable[[], bool]
    paused: Callable[[], Mapping[str, Pause]]
    clock: Callable[[], float] = time.monotonic
    attempt: int | None = None
    _why: str = "the tier begins"
    _awaits: str = ""
    _turned: float = field(init=False)
    _known: dict[str, _Unit] = field(init=False)

    def __post_init__(self) -> None:
        self._lock, self._turned = threading.Lock(), self.clock()
        self._known = {name: _Unit() for name in self.units}

    # --- what is written on it ---------------------------------------------------------------------------------------

    def turn(self) -> None:
        """The driver's own loop."""
        self._turned = self.clock()

    def say(self, why: str) -> None:
        """Why the tier as a whole is not ready; empty: nothing stands in the way."""
        self._why = why

    @contextmanager
    def awaiting(self, whom: str) -> Iterator[None]:
        """The driver itself, for whom nothing else goes on meanwhile, nor is anything reported."""
        self._awaits = whom
        try:
            yield
        finally:
            self._awaits = ""

    def reported(self, name: str, report: Report) -> None:
        with self._lock:
            unit = self._unit(name)
            unit.report, unit.heard = report, self.clock()
            if report.turned_s is not None and unit.told is not None and unit.told.state is State.WAITS:
                unit.told = None  # its driver had said so of the run before

    def tell(self, name: str, condition: Condition | None) -> None:
        with self._lock:
            self._unit(name).told = condition

    def ended(self, name: str, why: str, for_good: bool) -> None:
        """This run of it; what it reported before is not of the next. `for_good`: it is none of the tier's any more."""
        with self._lock:
            unit = self._unit(name)
            unit.report, unit.said = None, why
            if for_good:
                self._known.pop(name, None)

    def _unit(self, name: str) -> _Unit:
        """Whoever else reports is none of this driver's, and is not shown."""
        return self._known.get(name) or _Unit()

    # --- what is read from it ----------------------------------------------------------------------------------------

    def alive(self) -> bool:
        return self.clock() - self._turned < (SPARK_STARTS_S if self._why == SPARK_STARTS else TURNS_S)

    def unready(self) -> str:
        """Why; empty: the tier is ready."""
        return without_secrets(self._unready())

    def _unready(self) -> str:
        if self._why:
            return self._why
        with self._lock:
            states = [(self.units[name], *self._state(unit)) for name, unit in self._known.items()]
        for shown, state, why in states:
            if state not in (RUNS, State.STANDS.value):
                return f"{self.tier} {shown} {'is ' if state == STARTING else ''}{state}{f': {why}' if why else ''}"
        return ""

    def status(self) -> dict[str, Any]:
        why = self.unready()
        with self._lock:
            units = {self.units[name]: self._shown(unit) for name, unit in self._known.items()}
            figures = sums([unit.report.figures for unit in self._known.values() if unit.report is not None])
        return {
            "tier": self.tier,
            "subgroup": self.subgroup,
            "attempt": self.attempt,
            "ready": not why,
            "why": why,
            "units": units,
            "paused": {source: without_secrets(pause.why) for source, pause in self._paused().items()},
            "figures": asdict(figures),
        }

    def _paused(self) -> Mapping[str, Pause]:
        """None, as long as the control port has not been heard."""
        try:
            return self.paused()
        except (Unreachable, Refused):
            return {}

    def _shown(self, unit: _Unit) -> dict[str, Any]:
        state, why = self._state(unit)
        report = unit.report or Report()
        return {"state": state, "why": without_secrets(why), "epoch": report.epoch, "figures": asdict(report.figures)}

    def _state(self, unit: _Unit) -> tuple[str, str]:
        if unit.told is not None:
            return unit.told.state.value, unit.told.why
        report = unit.report
        if report is None or report.turned_s is None:
            return STARTING, unit.said
        silent_s = self.clock() - unit.heard
        if silent_s + report.turned_s <= FRESH_S:
            return RUNS, ""
        # What somebody has waited for when he was last heard, long ago, says nothing.
        if awaited := report.awaits if report.turned_s > silent_s else self._awaits:
            return State.WAITS.value, f"{awaited} has not answered for more than {FRESH_S:.0f} s"
        return STARTING, f"nothing was heard of it for more than {FRESH_S:.0f} s"
