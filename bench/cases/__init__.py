"""The core's cases: what is measured, in which unit, and which figure is good enough.

A case is one line of `CORE_CASES` or `SEMIJOIN_CASES` and one function `(Scale) -> Measured` in the module that the
line names. The command runs every function in a process of its own, one kernel thread, so that no case warms or starves
the next. A function makes its own seeded data, compiles and warms whatever it times before it starts the clock, and
returns one number in the line's unit. A target holds at `Scale.FULL`; `Scale.QUICK` is for seeing that a case works (a
second or two), and its figures are printed without a verdict.

The function is named by text and found when the case runs: a module that is not there makes its cases "not measured",
and the rest of the bench goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module


class Scale(Enum):
    FULL = "full"
    QUICK = "quick"

    def of(self, full: int, quick: int) -> int:
        """The size for this scale: `rows = scale.of(1_000_000, 50_000)`."""
        return full if self is Scale.FULL else quick


class Direction(Enum):
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True)
class Measured:
    """`points`: optional (x, y) pairs behind the number, for a plot. `note`: what a reader must know beside it."""

    value: float
    points: tuple[tuple[float, float], ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Case:
    """`unit` follows the number as written ("tuples/s", "ms", "x"); numbers are plain, 3e6 and not 3 with "M". `target`
    None: a figure for orientation, which nothing was promised of."""

    name: str
    what: str
    unit: str
    target: float | None
    direction: Direction
    function: str  # "module:function"

    def run(self, scale: Scale) -> Measured:
        module, _, name = self.function.partition(":")
        function: Callable[[Scale], Measured] = getattr(import_module(module), name)
        return function(scale)


LEAST, MOST = Direction.AT_LEAST, Direction.AT_MOST
CORE = "bench.cases.core"

# One thread, blocks of 10,000 rows already in memory, integer columns, stores from `index.build.new_store`, both sides
# stored and probed as a joiner does it. Tuples are counted over both sides.
CORE_CASES: tuple[Case, ...] = (
    Case("equality", "1M rows a side", "tuples/s", 3e6, LEAST, f"{CORE}:equality"),
    Case("band", "±5, 1M rows a side", "tuples/s", 3e6, LEAST, f"{CORE}:band"),
    Case("two inequalities", "200k rows a side, about 1M pairs", "tuples/s", 1e6, LEAST, f"{CORE}:two_inequalities"),
    Case(
        "residual",
        "a band with an arithmetic residual",
        "candidate pairs/s",
        50e6,
        LEAST,
        "bench.cases.residual:band_residual",
    ),
    Case("pairs to Arrow", "two columns of 8 bytes", "pairs/s", 100e6, LEAST, f"{CORE}:pairs_to_arrow"),
    Case(
        "pairs through a store",
        "as above, but found by a probe and gathered",
        "pairs/s",
        None,
        LEAST,
        f"{CORE}:pairs_through_a_store",
    ),
    Case("totals", "COUNT and SUM over a band, 500 matches a probe", "pairs/s", 500e6, LEAST, f"{CORE}:totals"),
    Case(
        "growth, equality",
        "time of a probe at 10M stored rows over that at 100k, equal matches",
        "x",
        3,
        MOST,
        f"{CORE}:growth_equality",
    ),
    Case(
        "growth, band",
        "time of a probe at 10M stored rows over that at 100k, equal matches",
        "x",
        3,
        MOST,
        f"{CORE}:growth_band",
    ),
    Case("step, equality", "p99 of 1,000 rows against 1M stored", "ms", 10, MOST, f"{CORE}:step_equality"),
    Case("step, band", "p99 of 1,000 rows against 1M stored", "ms", 10, MOST, f"{CORE}:step_band"),
    Case(
        "step, two inequalities",
        "p99 of 1,000 rows against 1M stored",
        "ms",
        10,
        MOST,
        "bench.cases.dominance_step:step_two_inequalities",
    ),
    Case(
        "state, equality",
        "bytes of a store over the raw bytes of columns, id, time and stamp",
        "x",
        2,
        MOST,
        f"{CORE}:state_equality",
    ),
    Case(
        "state, band",
        "bytes of a store over the raw bytes of columns, id, time and stamp",
        "x",
        2,
        MOST,
        f"{CORE}:state_band",
    ),
    Case(
        "state, two inequalities",
        "bytes of a store over the raw bytes of columns, id, time and stamp",
        "x",
        2,
        MOST,
        f"{CORE}:state_two_inequalities",
    ),
)

# Bytes between a dispatcher and its joiners: figures of the data plane, though nothing of it but its tiers' logic runs.
SEMIJOIN_CASES: tuple[Case, ...] = (
    Case(
        "semijoin, bytes",
        "between dispatcher and joiners, whole tuples over keys first: 1 kB payloads, 4 units a side, 1 % matching",
        "x",
        5,
        LEAST,
        "bench.cases.semijoin:fewer_bytes",
    ),
    Case(
        "semijoin, crossover",
        "share of matching tuples from which whole tuples are fewer bytes, measured over predicted",
        "x",
        None,
        LEAST,
        "bench.cases.semijoin:crossover",
    ),
)

CASES = CORE_CASES + SEMIJOIN_CASES
