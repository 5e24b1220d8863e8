"""Keeps tiers running, as the operator will: a tier that ends is started again, later each time that it ends soon."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.chaos.processes import signal_session

LOOK_S = 0.1
BACKOFF_S, BACKOFF_MAX_S, HEALTHY_S = 0.5, 10.0, 60.0


class Ended(NamedTuple):
    """`said`: the last lines of its log."""

    tier: str
    code: int
    ran_s: float
    said: str

    @property
    def sentence(self) -> str:
        """With which it ended: the message of the last event it told, else the last line."""
        lines = [line.strip() for line in self.said.splitlines() if line.strip()]
        told = next((line for line in reversed(lines) if line.startswith('{"time"') and line.endswith("}")), None)
        if told is not None:
            return str(json.loads(told)["message"])
        return lines[-1] if lines else ""


@dataclass
class Kept:
    process: subprocess.Popen[bytes]
    log: Path
    began: float
    soon: int = 0  # how often in a row it ended soon


@dataclass
class Keeper:
    """`start(tier, log)`: a process that leads a session of its own. `folder`: for the logs, one for each start."""

    start: Callable[[str, Path], subprocess.Popen[bytes]]
    folder: Path
    ended: list[Ended] = field(default_factory=list)
    starts: int = 0

    def __post_init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        self._due: dict[str, tuple[float, int]] = {}  # when to start again, and how often it had ended soon
        self._held: set[str] = set()
        self._lock = threading.RLock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="keeper")
        self._thread.start()

    def keep(self, tier: str) -> None:
        with self._lock:
            self._begin(tier, 0)

    def session(self, tier: str) -> int | None:
        """None while it is down."""
        with self._lock:
            kept = self._kept.get(tier)
            return kept.process.pid if kept is not None and kept.process.poll() is None else None

    def log_of(self, tier: str) -> str:
        return "".join(log.read_text(errors="replace") for log in sorted(self.folder.glob(f"{tier}-*.log")))

    def succeed(self, tier: str) -> Kept:
        """A successor is started though nobody knows that the one before is gone; who is handed over."""
        with self._lock:
            before = self._kept.pop(tier)
            self._begin(tier, 0)
            return before

    def hold(self, tier: str) -> None:
        """Killed, and not started again before `release`."""
        with self._lock:
            self._held.add(tier)
            kept = self._kept.pop(tier, None)
            self._due.pop(tier, None)
        if kept is not None:
            signal_session(kept.process.pid, signal.SIGKILL)
            kept.process.wait()

    def release(self, tier: str) -> None:
        with self._lock:
            self._held.discard(tier)
            self._begin(tier, 0)

    def stop(self, ask: Callable[[], None], limit_s: float = 60.0) -> dict[str, int]:
        """`ask`: them to end by themselves. Exit codes by tier; who does not end in time is killed."""
        self._stopping.set()
        self._thread.join()
        ask()
        codes = {}
        deadline = time.monotonic() + limit_s
        for tier, kept in self._kept.items():
            try:
                codes[tier] = kept.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                signal_session(kept.process.pid, signal.SIGKILL)
                codes[tier] = kept.process.wait()
        return codes

    def _begin(self, tier: str, soon: int) -> None:
        self.starts += 1
        log = self.folder / f"{tier}-{self.starts:04}.log"
        self._kept[tier] = Kept(self.start(tier, log), log, time.monotonic(), soon)

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_S):
            with self._lock:
                self._look(time.monotonic())

    def _look(self, now: float) -> None:
        for tier, kept in list(self._kept.items()):
            code = kept.process.poll()
            if code is not None:
                del self._kept[tier]
                signal_session(kept.process.pid, signal.SIGKILL)  # a pod goes whole
                ran_s = now - kept.began
                soon = 0 if ran_s >= HEALTHY_S else kept.soon + 1
                wait_s = min(BACKOFF_S * 2.0 ** max(0, soon - 1), BACKOFF_MAX_S)
                self.ended.append(Ended(tier, code, ran_s, kept.log.read_text(errors="replace")[-2000:]))
                self._due[tier] = now + wait_s, soon
        for tier, (due, soon) in list(self._due.items()):
            if due <= now and tier not in self._held:
                del self._due[tier]
                self._begin(tier, soon)
