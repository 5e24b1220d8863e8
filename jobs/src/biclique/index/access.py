"""From a plan's access to keys: what a side stores of its rows, and what the other side asks with its own.

The plan's ranges come in by their shape (`KeyRange`), as this layer does not know the plan. Columns are found through
`positions`, as for every compiled expression. A row of which some key is null matches nothing, for a comparison with
null is not true: stored rows are left out of the index, probes are not active. Keys that failed are null too. Keys are
numbers, also those of texts: rows whose texts would be too many bytes at once are taken a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeVar

import numpy as np

from biclique.core.rows import Mask, Vector
from biclique.index.keys import equality_keys, high_bounds, low_bounds, order_keys
from biclique.index.protocol import Keys, ProbeKeys, StoredKeys
from biclique.kernels.evaluate import Program, compile_expression
from biclique.kernels.text_growth import Pace, pace_of
from biclique.query.expression import Column, Expression


class KeyRange(Protocol):
    """plan.model.KeyRange."""

    @property
    def stored(self) -> Expression: ...
    @property
    def low(self) -> Expression | None: ...
    @property
    def low_strict(self) -> bool: ...
    @property
    def low_shift(self) -> int | float: ...
    @property
    def high(self) -> Expression | None: ...
    @property
    def high_strict(self) -> bool: ...
    @property
    def high_shift(self) -> int | float: ...


SomeKeys = TypeVar("SomeKeys", StoredKeys, ProbeKeys)


class _Presence:
    """Which rows have all their keys."""

    __slots__ = ("mask",)

    def __init__(self) -> None:
        self.mask: Mask | None = None

    def add(self, vector: Vector) -> Vector:
        self.require(vector.valid)
        return vector

    def require(self, mask: Mask | None) -> None:
        if mask is not None:
            self.mask = mask if self.mask is None else self.mask & mask


def _paced(
    pace: Pace | None,
    keys_of: Callable[[Sequence[Vector], int], SomeKeys],
    columns: Sequence[Vector],
    count: int,
) -> SomeKeys:
    if pace is None or pace.fits(columns, count):
        return keys_of(columns, count)
    parts = [
        (keys_of([column.slice(start, stop) for column in columns], stop - start), stop - start)
        for start, stop in pace.stretches(columns, count)
    ]
    return _joined(parts)


def _joined(parts: Sequence[tuple[SomeKeys, int]]) -> SomeKeys:
    """What is None of some rows but not of others is a mask that leaves nothing out."""
    first = parts[0][0]
    joined: dict[str, Any] = {}
    for name in (field.name for field in fields(first)):
        values = [(getattr(keys, name), size) for keys, size in parts]
        if name == "count":
            joined[name] = sum(size for _, size in values)
        elif any(value is not None for value, _ in values):
            joined[name] = np.concatenate([np.ones(size, np.bool_) if v is None else v for v, size in values])
    return type(first)(**joined)


class StoredKeysOf:
    """Rows of the stored side → their keys."""

    def __init__(
        self,
        equal: Sequence[tuple[Expression, Expression]],
        first: KeyRange | None,
        second: KeyRange | None,
        positions: Mapping[Column, int],
    ) -> None:
        self._equal = tuple((compile_expression(stored, positions), stored.type) for stored, _ in equal)
        self._ranges = tuple(
            None if r is None else (compile_expression(r.stored, positions), r.stored.type) for r in (first, second)
        )
        ranged = (r.stored for r in (first, second) if r is not None)
        self._pace = pace_of((*(stored for stored, _ in equal), *ranged), positions)

    def __call__(self, columns: Sequence[Vector], count: int) -> StoredKeys:
        return _paced(self._pace, self._keys, columns, count)

    def _keys(self, columns: Sequence[Vector], count: int) -> StoredKeys:
        presence = _Presence()
        equal: Keys | None = None
        if self._equal:
            vectors = [presence.add(program.run(columns, count)) for program, _ in self._equal]
            equal, _ = equality_keys(vectors, [type_ for _, type_ in self._equal])
        first, second = (
            None if r is None else order_keys(presence.add(r[0].run(columns, count)), r[1])[0] for r in self._ranges
        )
        return StoredKeys(equal, first, second, presence.mask)


@dataclass(frozen=True, slots=True)
class _Bound:
    program: Program
    expression: Expression
    shift: int | float
    strict: bool


class ProbeKeysOf:
    """Rows of the probing side → what they ask for."""

    def __init__(
        self,
        equal: Sequence[tuple[Expression, Expression]],
        first: KeyRange | None,
        second: KeyRange | None,
        positions: Mapping[Column, int],
    ) -> None:
        self._equal = tuple((compile_expression(probe, positions), probe.type) for _, probe in equal)

        def bound(expression: Expression | None, shift: int | float, strict: bool) -> _Bound | None:
            if expression is None:
                return None
            return _Bound(compile_expression(expression, positions), expression, shift, strict)

        self._bounds = tuple(
            (None, None)
            if r is None
            else (bound(r.low, r.low_shift, r.low_strict), bound(r.high, r.high_shift, r.high_strict))
            for r in (first, second)
        )
        bounds = (b.expression for pair in self._bounds for b in pair if b is not None)
        self._pace = pace_of((*(probe for _, probe in equal), *bounds), positions)

    def __call__(self, columns: Sequence[Vector], count: int) -> ProbeKeys:
        return _paced(self._pace, self._keys, columns, count)

    def _keys(self, columns: Sequence[Vector], count: int) -> ProbeKeys:
        presence = _Presence()
        equal: Keys | None = None
        if self._equal:
            vectors = [presence.add(program.run(columns, count)) for program, _ in self._equal]
            equal, _ = equality_keys(vectors, [type_ for _, type_ in self._equal])
        keys: list[Keys | None] = []
        for low, high in self._bounds:
            for bound, bounds_of in ((low, low_bounds), (high, high_bounds)):
                if bound is None:
                    keys.append(None)
                    continue
                vector = presence.add(bound.program.run(columns, count))
                found, possible = bounds_of(vector, bound.expression.type, bound.shift, bound.strict)
                presence.require(possible)
                keys.append(found)
        first_low, first_high, second_low, second_high = keys
        return ProbeKeys(count, equal, first_low, first_high, second_low, second_high, presence.mask)
