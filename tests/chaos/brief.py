"""The few faults that make test has time for: each tier killed in another way, each server, a cut, a checkpoint."""

from __future__ import annotations

from tests.chaos.faults import BRIEF
from tests.chaos.run import Setting
from tests.chaos.schedule import Due, named
from tests.chaos.stage import PAIRS

BRIEF_SETTING = Setting(seed=1, rate=250, rows=0, durations=BRIEF, trimmed=False)
CHOSEN = (
    ("Python worker", "joiner"),
    ("broker killed", "kafka"),
    ("all its processes", "shuffler"),
    ("its Java", "dispatcher"),
    ("answers are lost", "joiner"),
    ("checkpoint corrupted", "joiner"),
)


def brief(seed: int) -> list[Due]:
    return named(seed, PAIRS, CHOSEN)
