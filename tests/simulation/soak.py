"""As many seeds, fuzz inputs and planted bugs as there is time for. A round begins where chance says.

A round is a thousand seeds, some fuzz inputs of the SQL checker, and every planted bug with the seed that caught it.
The first failure ends it, with the command that shows it again.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

SEEDS_A_ROUND, INPUTS_A_ROUND = 1_000, 100_000
FUZZ = "tests/property/test_sql_fuzz.py"


def soak(minutes: float, jobs: int) -> int:
    began, rounds = time.monotonic(), 0
    while time.monotonic() - began < minutes * 60:
        first = random.SystemRandom().randrange(10_000, 1 << 31)
        rounds += 1
        print(f"round {rounds}: seeds and inputs from {first}", flush=True)
        for command, settings in (
            (("tests.simulation", "seeds", "--first", first, "--count", SEEDS_A_ROUND, "--jobs", jobs), {}),
            (("pytest", "-q", "-m", "slow", FUZZ), {"FUZZ_SEED": str(first), "FUZZ_INPUTS": str(INPUTS_A_ROUND)}),
            (("tests.simulation", "planted", "--replay", "--jobs", jobs), {}),
        ):
            words = [sys.executable, "-m", *map(str, command)]
            if subprocess.run(words, env={**os.environ, **settings}, check=False).returncode:
                told = " ".join(
                    [*(f"{name}={value}" for name, value in settings.items()), "python -m", *map(str, command)]
                )
                print(f"round {rounds} failed; again: {told}")
                return 1
            if time.monotonic() - began >= minutes * 60:
                break
    print(f"{rounds} rounds, {(time.monotonic() - began) / 60:.0f} minutes, nothing failed")
    return 0
