"""As many seeds, fuzz inputs and planted bugs as there is time for, round after round.

A round is a thousand seeds that `make test` does not run, a new hunt for every planted bug among such seeds (does the
world still come to where they matter, or only the seed that is known to?), and a million inputs of the SQL checker.
Each part says what it is about to do and how far it is; between two parts the clock is looked at, and a part
under way when the time is over is stopped. The first failure ends it, with the command that shows it again. A round
says with which seed the next begins, so that a soak can be taken up where it was left.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

SEEDS_A_ROUND, INPUTS_A_ROUND = 1_000, 1_000_000
FUZZ = "tests/property/test_sql_fuzz.py"


@dataclass(frozen=True)
class Part:
    what: str
    command: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def again(self) -> str:
        return " ".join([*(f"{name}={value}" for name, value in self.settings.items()), "python -m", *self.command])


def parts(first: int, jobs: int) -> Iterator[Part]:
    many, these, at_once = str(SEEDS_A_ROUND), ("--first", str(first)), ("--jobs", str(jobs))
    yield Part(f"{many} seeds from {first}", ("tests.simulation", "seeds", *these, "--count", many, *at_once))
    yield Part("every planted bug", ("tests.simulation", "planted", "--seek", *these, *at_once))
    fuzz = {"FUZZ_SEED": str(first), "FUZZ_INPUTS": str(INPUTS_A_ROUND)}
    yield Part(f"{INPUTS_A_ROUND:,} inputs of the SQL checker", ("pytest", "-q", "-m", "slow", FUZZ), fuzz)


def soak(minutes: float, jobs: int, first: int | None = None) -> int:
    began, rounds = time.monotonic(), 0
    seed = random.SystemRandom().randrange(10_000, 1 << 31) if first is None else first
    while True:
        for part in parts(seed, jobs):
            spent = (time.monotonic() - began) / 60
            if spent >= minutes:
                print(f"{rounds} whole rounds in {spent:.0f} minutes, nothing failed; go on: make soak FIRST={seed}")
                return 0
            print(f"round {rounds + 1}, minute {spent:.0f}: {part.what}", flush=True)
            if not passes(part, (minutes - spent) * 60):
                print(f"round {rounds + 1} failed; again: {part.again}")
                return 1
        seed, rounds = seed + SEEDS_A_ROUND, rounds + 1


def passes(part: Part, seconds: float) -> bool:
    """A part for which there is no time any more has not failed."""
    running = subprocess.Popen([sys.executable, "-m", *part.command], env={**os.environ, **part.settings})
    try:
        return running.wait(None if seconds == float("inf") else seconds) == 0
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as stopped:
        running.send_signal(signal.SIGINT)  # its own workers end with it
        running.wait()
        if isinstance(stopped, KeyboardInterrupt):
            raise
        return True
