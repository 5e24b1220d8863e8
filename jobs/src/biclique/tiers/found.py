"""Matches by reference, and the least of them in canonical order, selected in bounded memory.

The canonical order of the matches of one stamp is by (probe's ids, stored stamp, stored ids). A store finds them in an
order of its own, so that the first of them are known only when all have been seen: `Least` sees them chunk by chunk and
keeps no more than it is asked for, whatever their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Rows
from biclique.index.protocol import Store
from biclique.kernels.text_growth import Growth, result_growth, stretches_of
from biclique.plan.model import Stage
from biclique.query.expression import Expression

Sizes = NDArray[np.int64]
Key = tuple[int, ...]  # of a match: probe's ids, stored stamp, stored ids


@dataclass(frozen=True, slots=True)
class Found:
    """Matches of one store: positions in the probing rows, references of stored ones. `size`: bytes of the rows they
    pair and of what is made of them, from above."""

    store: Store
    probe: NDArray[np.int64]
    stored: NDArray[np.int64]
    size: int


def pieces(sizes: Sizes | int, count: int, bytes_max: int) -> Iterator[tuple[int, int]]:
    """Stretches that have no more bytes each, or one entry only. A number: each entry has so many."""
    if (sizes * count if isinstance(sizes, int) else int(sizes.sum())) <= bytes_max:
        yield 0, count
    elif isinstance(sizes, int):
        step = max(1, bytes_max // sizes)
        yield from ((start, min(start + step, count)) for start in range(0, count, step))
    else:
        yield from stretches_of(sizes, bytes_max)


@dataclass(frozen=True, slots=True)
class PairSize:
    """Bytes of what is made of a pair, from above: `fixed`, and so many times the texts of each of its rows."""

    fixed: int = 0
    probe: int = 1
    stored: int = 1


def pair_size(expressions: Sequence[Expression], stage: Stage, stored_side: int) -> PairSize:
    """Of what these make, or of the pair itself where that is more."""
    growth = sum((result_growth(expression) for expression in expressions), Growth())

    def most(side: int) -> int:
        return max((growth.times.get(column, 0) for column in stage.sides[side].columns), default=0)

    return PairSize(growth.fixed + 8 * len(expressions), max(1, most(1 - stored_side)), max(1, most(stored_side)))


@dataclass(frozen=True, slots=True)
class _Kept:
    """`columns`: of the keys. `home`: the number of the store that a match is of."""

    columns: list[NDArray[Any]]
    home: NDArray[np.int64]
    probe: NDArray[np.int64]
    stored: NDArray[np.int64]

    def take(self, rows: NDArray[Any]) -> _Kept:
        return _Kept([column[rows] for column in self.columns], self.home[rows], self.probe[rows], self.stored[rows])

    def key(self, row: int) -> Key:
        return tuple(int(column[row]) for column in self.columns)


class Least:
    """The `count` least matches behind `bound` (None: from the first) of one run of probing rows. In memory are at most
    twice as many and one chunk."""

    def __init__(self, probes: Rows, count: int, bound: Key | None) -> None:
        self._probes, self._count, self._bound = probes, count, bound
        self._stores: list[Store] = []
        self._parts: list[_Kept] = []
        self.held = 0  # in memory
        self._worst: Key | None = None  # nothing above it is among the least
        self.seen = 0  # matches in all
        self.more = False  # some are behind the bound, and not among the least

    def take(self, found: Found) -> None:
        self.seen += len(found.probe)
        if found.store not in self._stores:
            self._stores.append(found.store)
        stamps, ids = found.store.names(found.stored)
        kept = _Kept(
            [*(part[found.probe] for part in self._probes.ids), stamps, *ids],
            np.full(len(found.probe), self._stores.index(found.store)),
            found.probe,
            found.stored,
        )
        if self._bound is not None:
            kept = kept.take(_beyond(kept.columns, self._bound))
        if self._worst is not None:
            above = _beyond(kept.columns, self._worst)
            self.more |= bool(above.any())
            kept = kept.take(~above)
        self._parts.append(kept)
        self.held += len(kept.probe)
        if self.held > 2 * self._count:
            self._cut()

    def _cut(self) -> _Kept | None:
        """What is kept, in order."""
        if not self.held:
            return None
        columns = [np.concatenate([p.columns[i] for p in self._parts]) for i in range(len(self._parts[0].columns))]
        home, probe, stored = (
            np.concatenate([getattr(p, name) for p in self._parts]) for name in ("home", "probe", "stored")
        )
        order = np.lexsort(columns[::-1])
        self.more |= len(order) > self._count
        kept = _Kept(columns, home, probe, stored).take(order[: self._count])
        self._parts, self.held = [kept], len(kept.probe)
        if self.held == self._count:
            self._worst = kept.key(-1)
        return kept

    def close(self) -> Selected | None:
        """All have been seen. None: there is no match behind the bound."""
        kept = self._cut()
        return None if kept is None else Selected(kept, self._stores)


class Selected:
    """Matches in canonical order."""

    def __init__(self, kept: _Kept, stores: Sequence[Store]) -> None:
        self._kept, self._stores = kept, stores

    def __len__(self) -> int:
        return len(self._kept.probe)

    def by_store(self) -> Iterator[tuple[Store, NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]]:
        """(store, places in this order, positions in the probing rows, references)."""
        for number, store in enumerate(self._stores):
            at = np.flatnonzero(self._kept.home == number)
            if len(at):
                yield store, at, self._kept.probe[at], self._kept.stored[at]

    def stretch(self, start: int, end: int, first: int, sizes: Sizes) -> list[Found]:
        """The matches from one place to another; `first` is added to the positions."""
        found: list[Found] = []
        for store, at, probe, stored in self.by_store():
            within = slice(*np.searchsorted(at, (start, end)).tolist())
            if within.start < within.stop:
                size = int(sizes[at[within]].sum())
                found.append(Found(store, probe[within] + first, stored[within], size))
        return found

    def key(self, place: int) -> Key:
        return self._kept.key(place)


def _beyond(columns: list[NDArray[Any]], bound: Key) -> NDArray[np.bool_]:
    """Where (columns…) > bound, lexicographically."""
    beyond = np.zeros(len(columns[0]), np.bool_)
    for column, value in zip(reversed(columns), reversed(bound), strict=True):
        limit = column.dtype.type(value)
        beyond = (column > limit) | ((column == limit) & beyond)
    return beyond
