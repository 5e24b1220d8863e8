"""The one compiler from the checked tree to vectorised evaluation: of filters, residuals, keys, routes, select lists.

`compile_expression` gives a Program that maps columns to a column; `compile_predicate` gives a Predicate for a
conjunction. Both are judged by tests/model/evaluate.py, which does the same one row at a time with plain Python
numbers.

An expression becomes a list of steps, each of which reads earlier results and makes one; equal subexpressions are one
step, what depends on no column is computed once, at compile time, and a result is let go after its last use, so that
a run needs few buffers. Steps never trap: the value under a null is harmless and a failure is a mask
(kernels/lanes.py).

What an operator means is said in the header of its module: arithmetic, decimals, rounding, comparison, logic,
strings, timestamps, conversion.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from biclique.core.rows import Mask, Vector, concat_vectors
from biclique.kernels.lanes import Lane, both, dtype_of, either, spread, to_vector
from biclique.kernels.operators import Operator, can_fail, operator_of
from biclique.kernels.text_growth import Pace, pace_of
from biclique.query.expression import Call, Column, Expression, Literal, columns_of
from biclique.query.types import Kind

CACHE_ROWS = 1 << 14  # int64 columns of this many rows, some at a time, stay in a core's second cache
WORTH_GATHERING_BELOW = 0.25  # with a smaller share of rows still open, later conjuncts look at gathered rows only

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Step:
    """Reads results `inputs`, writes result `output`; then `released` are not needed. `place`: load a column."""

    output: int
    place: int = -1
    operator: Operator | None = None
    inputs: tuple[int, ...] = ()
    released: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Program:
    columns: tuple[int, ...]  # the places that `run` reads
    fails: bool  # whether a row can fail at all
    pace: Pace | None  # None: any number of rows at a time
    _steps: tuple[Step, ...]
    _constants: tuple[Lane | None, ...]
    _result: int

    def run(self, columns: Sequence[Vector | None], count: int) -> Vector:
        """`count` rows. Columns that are not in `self.columns` may be None."""
        if self.pace is None or self.pace.fits(columns, count):
            return to_vector(self.lane(columns), count)
        parts = [
            to_vector(self.lane(_stretch(columns, self.columns, start, stop)), stop - start)
            for start, stop in self.pace.stretches(columns, count)
        ]
        return concat_vectors(parts)

    def lane(self, columns: Sequence[Vector | None]) -> Lane:
        results = list(self._constants)
        with np.errstate(all="ignore"):
            for step in self._steps:
                if step.operator is None:
                    column = columns[step.place]
                    assert column is not None, f"column {step.place} is in Program.columns and was not given"
                    results[step.output] = Lane(column.values, column.valid, column.failed)
                else:
                    results[step.output] = step.operator(tuple(_given(results[i]) for i in step.inputs))
                for i in step.released:
                    results[i] = None
        return _given(results[self._result])


def _given(lane: Lane | None) -> Lane:
    assert lane is not None
    return lane


def compile_expression(expression: Expression, positions: Mapping[Column, int]) -> Program:
    """`positions` says where `run` finds each column of the expression."""
    places: dict[Expression, int] = {}
    constants: list[Lane | None] = []
    steps: list[Step] = []

    def place_of(node: Expression) -> int:
        known = places.get(node)
        if known is not None:
            return known
        made: Lane | None = None
        inputs: tuple[int, ...] = ()
        if isinstance(node, Literal):
            made = literal(node)
        elif isinstance(node, Call):
            inputs = tuple(place_of(arg) for arg in node.args)
            lanes = tuple(constants[i] for i in inputs)
            if all(lane is not None for lane in lanes):
                with np.errstate(all="ignore"):
                    made = operator_of(node)(tuple(_given(lane) for lane in lanes))
        place = places[node] = len(constants)
        constants.append(made)
        if isinstance(node, Column):
            steps.append(Step(place, positions[node]))
        elif made is None and isinstance(node, Call):
            steps.append(Step(place, operator=operator_of(node), inputs=inputs))
        return place

    result = place_of(expression)
    columns = tuple(sorted({positions[column] for column in columns_of(expression)}))
    released = _with_releases(steps, constants, result)
    pace = pace_of((expression,), positions)
    return Program(columns, can_fail(expression), pace, released, tuple(constants), result)


def _with_releases(steps: list[Step], constants: list[Lane | None], result: int) -> tuple[Step, ...]:
    last = {i: number for number, step in enumerate(steps) for i in step.inputs if constants[i] is None and i != result}
    return tuple(
        Step(step.output, step.place, step.operator, step.inputs, tuple(i for i, at in last.items() if at == number))
        for number, step in enumerate(steps)
    )


def literal(node: Literal) -> Lane:
    """One entry that stands for every row."""
    valid = None if node.value is not None else np.zeros(1, np.bool_)
    if node.type.kind is Kind.STRING:
        return Lane(pa.array([node.value or ""], pa.string()), valid)
    value = node.value or 0
    assert not isinstance(value, str)
    known = (int(value), int(value)) if node.type.kind not in (Kind.DOUBLE, Kind.BOOLEAN) else None
    return Lane(np.array([value], dtype_of(node.type)), valid, None, known)


def truth(vector: Vector) -> Mask:
    """Where a BOOLEAN column is true: neither null nor failed."""
    values: Mask = np.asarray(vector.values)
    return values if vector.valid is None else values & vector.valid


def failures(vector: Vector) -> int:
    return 0 if vector.failed is None else int(np.count_nonzero(vector.failed))


@dataclass(frozen=True, slots=True)
class Predicate:
    """A conjunction. `columns`: the places that `run` reads."""

    columns: tuple[int, ...]
    pace: Pace | None
    _conjuncts: tuple[Program, ...]

    def run(self, columns: Sequence[Vector | None], count: int) -> tuple[Mask, int]:
        """(where every conjunct is true, how many rows failed: some conjunct did and none is false)."""
        mask, failed = self.masks(columns, count)
        return mask, 0 if failed is None else int(np.count_nonzero(failed))

    def masks(self, columns: Sequence[Vector | None], count: int) -> tuple[Mask, Mask | None]:
        """(where every conjunct is true, which rows failed; None: none did)."""
        if not self._conjuncts or (count <= CACHE_ROWS and (self.pace is None or self.pace.fits(columns, count))):
            return self._block(columns, count)
        mask, failed = np.empty(count, np.bool_), None
        for start, stop in self._stretches(columns, count):
            mask[start:stop], more = self._block(_stretch(columns, self.columns, start, stop), stop - start)
            if more is not None:
                failed = np.zeros(count, np.bool_) if failed is None else failed
                failed[start:stop] = more
        return mask, failed

    def _stretches(self, columns: Sequence[Vector | None], count: int) -> Iterator[tuple[int, int]]:
        for start in range(0, count, CACHE_ROWS):
            stop = min(start + CACHE_ROWS, count)
            if self.pace is None:
                yield start, stop
                continue
            part = _stretch(columns, self.columns, start, stop)
            yield from ((start + low, start + high) for low, high in self.pace.stretches(part, stop - start))

    def _block(self, columns: Sequence[Vector | None], count: int) -> tuple[Mask, Mask | None]:
        """Conjunct after conjunct over the rows still open: not false, and not null unless a failure counts."""
        rows: Places | None = None  # which rows are looked at; None: all
        true: Mask | None = None
        failed: Mask | None = None
        still_open: Mask | None = None
        for number, program in enumerate(self._conjuncts):
            if still_open is not None and np.count_nonzero(still_open) < WORTH_GATHERING_BELOW * len(still_open):
                picked = np.flatnonzero(still_open)
                rows = picked if rows is None else rows[picked]
                if not len(rows):
                    return np.zeros(count, np.bool_), None
                wanted = {place for later in self._conjuncts[number:] for place in later.columns}
                columns = [_take(column, picked, i in wanted) for i, column in enumerate(columns)]
                true, failed, still_open = _pick(true, picked), _pick(failed, picked), None
            lane, size = program.lane(columns), count if rows is None else len(rows)
            values = spread(lane.values, size)
            unknown = None if lane.valid is None else ~spread(lane.valid, size)
            is_true = values if unknown is None else values & ~unknown
            true = is_true if true is None else true & is_true
            if lane.failed is not None:
                failed = either(failed, spread(lane.failed, size))
            # A null row can still become a failed one, or hide one that failed before: false it is not.
            later_fails = any(later.fails for later in self._conjuncts[number + 1 :])
            here = values | unknown if unknown is not None and (later_fails or failed is not None) else is_true
            still_open = here if still_open is None else still_open & here
        if failed is not None:
            failed = both(failed, still_open)
        return _scattered(true, rows, count), None if failed is None else _scattered(failed, rows, count)


def _scattered(true: Mask | None, rows: Places | None, count: int) -> Mask:
    if true is None:
        return np.ones(count, np.bool_)
    if rows is None:
        return true
    mask = np.zeros(count, np.bool_)
    mask[rows[true]] = True
    return mask


def _stretch(columns: Sequence[Vector | None], wanted: tuple[int, ...], start: int, stop: int) -> list[Vector | None]:
    return [
        column.slice(start, stop) if column is not None and place in wanted else None
        for place, column in enumerate(columns)
    ]


def _take(column: Vector | None, picked: Places, wanted: bool) -> Vector | None:
    return column.take(picked) if column is not None and wanted else None


def _pick(mask: Mask | None, picked: Places) -> Mask | None:
    return None if mask is None else mask[picked]


def compile_predicate(conjuncts: Sequence[Expression], positions: Mapping[Column, int]) -> Predicate:
    programs = tuple(compile_expression(conjunct, positions) for conjunct in conjuncts)
    places = tuple(sorted({place for program in programs for place in program.columns}))
    return Predicate(places, pace_of(conjuncts, positions), programs)
