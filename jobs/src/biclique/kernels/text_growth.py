"""How many bytes of text an expression makes of a row, from above, without evaluating it.

Arrow holds at most 2 GiB in one column of texts, and a column that an expression makes may be many times as large as
those it reads. So whoever evaluates asks first, and takes fewer rows at a time where it might be too much. The bound
follows from the tree: `fixed` bytes, and for each column of texts how often its text may stand in the result. A row's
own text cannot grow without end: CONCAT, UPPER and LOWER fail beyond `TEXT_MAX` (kernels/strings.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute

from biclique.core.rows import Vector
from biclique.query.expression import Call, Column, Expression, Literal, Op, walk
from biclique.query.types import Kind

STEP_BYTES_MAX = 1 << 28  # of all texts that one step of an evaluation reads and makes, unless of a single row
VALUE_TEXT_BYTES = 32  # a number, a time or a truth as text: the longest is a TIMESTAMP far from now
CASE_GROWTH = 2  # bytes of a letter in capitals or small for each byte before: at most 3 for 2


@dataclass(frozen=True, slots=True)
class Growth:
    """Bytes of a row: `fixed`, and for each column so many times those of its text."""

    fixed: int = 0
    times: Mapping[Column, int] = field(default_factory=dict)

    def __add__(self, other: Growth) -> Growth:
        columns = self.times.keys() | other.times.keys()
        times = {column: self.times.get(column, 0) + other.times.get(column, 0) for column in columns}
        return Growth(self.fixed + other.fixed, times)

    def __or__(self, other: Growth) -> Growth:
        """At least both."""
        columns = self.times.keys() | other.times.keys()
        times = {column: max(self.times.get(column, 0), other.times.get(column, 0)) for column in columns}
        return Growth(max(self.fixed, other.fixed), times)

    def __bool__(self) -> bool:
        return bool(self.fixed or self.times)


NONE = Growth()


def result_growth(expression: Expression) -> Growth:
    """Of the text that the expression is."""
    if expression.type.kind is not Kind.STRING:
        return NONE
    match expression:
        case Column():
            return Growth(0, {expression: 1})
        case Literal(value=value):
            return Growth(len(str(value or "").encode()))
        case Call(op=Op.CONCAT):
            return sum((result_growth(arg) for arg in expression.args), NONE)
        case Call(op=Op.UPPER | Op.LOWER):
            inner = result_growth(expression.args[0])
            times = {column: CASE_GROWTH * many for column, many in inner.times.items()}
            return Growth(CASE_GROWTH * inner.fixed, times)
        case Call(op=Op.CAST) if expression.args[0].type.kind is not Kind.STRING:
            return Growth(VALUE_TEXT_BYTES)
        case Call(args=args):
            return _greatest(result_growth(arg) for arg in args)  # one of them, or a part of one


def step_growth(expression: Expression) -> Growth:
    """Of what any one step of the evaluation reads and makes, the last being to write the result for every row."""
    steps = (_of_step(node) for node in walk(expression))
    whole = NONE if isinstance(expression, Column) else result_growth(expression)
    return _greatest((*steps, whole))


def _of_step(node: Expression) -> Growth:
    """Of a call that makes texts, or is given some that were made. Columns that are only compared are there already."""
    if not isinstance(node, Call):
        return NONE
    given = [arg for arg in node.args if arg.type.kind is Kind.STRING]
    if node.type.kind is not Kind.STRING and all(isinstance(arg, Column | Literal) for arg in given):
        return NONE
    return sum((result_growth(arg) for arg in given), result_growth(node))


def _greatest(growths: Iterable[Growth]) -> Growth:
    greatest = NONE
    for growth in growths:
        greatest |= growth
    return greatest


@dataclass(frozen=True, slots=True)
class Pace:
    """How many rows an evaluation may take at a time. `times`: of the column at each place."""

    fixed: int
    times: tuple[tuple[int, int], ...]

    def fits(self, columns: Sequence[Vector | None], count: int) -> bool:
        """All at once."""
        return (
            self.fixed * count + sum(many * int(text.nbytes) for text, many in self._texts(columns)) <= STEP_BYTES_MAX
        )

    def stretches(self, columns: Sequence[Vector | None], count: int) -> Iterator[tuple[int, int]]:
        """Of rows that may be taken together: at least one, and all where that fits."""
        if self.fits(columns, count):
            yield 0, count
            return
        sizes = np.full(count, self.fixed, np.int64)
        for text, many in self._texts(columns):
            sizes += many * np.asarray(pa.compute.binary_length(text)).astype(np.int64)
        yield from stretches_of(sizes, STEP_BYTES_MAX)

    def _texts(self, columns: Sequence[Vector | None]) -> Iterator[tuple[pa.StringArray, int]]:
        for place, many in self.times:
            column = columns[place]
            assert column is not None, f"column {place} is read by the expression and was not given"
            yield column.values, many


def stretches_of(sizes: np.typing.NDArray[np.int64], bytes_max: int) -> Iterator[tuple[int, int]]:
    """Stretches of entries that have no more bytes each, or one entry only."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        done = int(ends[start - 1]) if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + bytes_max, side="right")))
        yield start, end
        start = end


def pace_of(expressions: Iterable[Expression], positions: Mapping[Column, int]) -> Pace | None:
    """For any of these expressions; None where they make no texts."""
    growth = _greatest(step_growth(expression) for expression in expressions)
    if not growth:
        return None
    return Pace(growth.fixed, tuple(sorted((positions[column], many) for column, many in growth.times.items())))
