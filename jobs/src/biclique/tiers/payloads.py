"""The payload of matches, where keys travelled first: which blocks of `<q>.shuffled` a batch of matches needs, and what
of them.

A batch is asked for once, before anything is made of it: every block of it is read at most once, however many of its
rows match, and of each row only the payload stays. So beside the batch itself (whose bytes count the texts that stayed
behind) there is one block in memory, and a cache of the last ones, bounded in bytes; whether a block is in the cache
decides nothing but who is asked for it. Performs nothing: `wanted` says what to read, `take` is given it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from biclique.core import payload_places
from biclique.core.payload_places import PayloadPlaces
from biclique.core.rows import Rows, Vector, concat_vectors
from biclique.plan.model import PLACE, Plan, Stage, Transport
from biclique.tiers.entry import source_positions
from biclique.tiers.found import Found
from biclique.tiers.messages import Address, Demand, Producer, SourceBlock, Topic

CACHE_BYTES_MAX = 64 << 20
DEMAND_ROWS = 16_384  # are handled before a unit tells again how often payload was wanted


class BlockPlace(NamedTuple):
    """A block of shuffled."""

    dispatcher: int
    offset: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """Blocks to read, in order."""

    blocks: tuple[BlockPlace, ...]


@dataclass(slots=True)
class PayloadCounters:
    """`wanted`: rows, each once a batch; `read`: blocks and their bytes, as they are in memory; `cached`: blocks that
    need not be read."""

    wanted: int = 0
    read: int = 0
    read_bytes: int = 0
    cached: int = 0


@dataclass(slots=True)
class _Table:
    """Of one side: the payload of some places, ascending, by position in the side's columns."""

    places: PayloadPlaces
    columns: Mapping[int, Vector]


@dataclass(slots=True)
class _Measured:
    relation: int
    handled: int = 0
    wanted: int = 0
    blocks: int = 0
    kept: int = 0  # of what is handled: from before it was told last

    def forget_half(self) -> None:
        self.handled, self.wanted, self.blocks = self.handled // 2, self.wanted // 2, self.blocks // 2
        self.kept = self.handled


class Payloads:
    """Of one unit; its sides by number."""

    def __init__(
        self, plan: Plan, stage: Stage, cache_bytes_max: int = CACHE_BYTES_MAX, demand_rows: int = DEMAND_ROWS
    ) -> None:
        self._demand_rows = demand_rows
        self._measured = {
            number: _Measured(side.relations[0])
            for number, side in enumerate(stage.sides)
            if side.transport is Transport.MEASURED
        }
        self._fields: dict[int, dict[int, int]] = {}  # side → position in its columns → position in a source block's
        self._place_at = {number: len(side.types) + PLACE for number, side in enumerate(stage.sides)}
        for number, side in enumerate(stage.sides):
            if side.payload:
                positions = source_positions(plan.query, side.relations[0])
                self._fields[number] = {at: positions[side.columns[at]] for at in side.payload}
        self._cache: OrderedDict[BlockPlace, SourceBlock] = OrderedDict()
        self._cache_bytes_max, self.cached_bytes = cache_bytes_max, 0
        self._needed: dict[BlockPlace, dict[int, PayloadPlaces]] = {}
        self._parts: dict[int, list[_Table]] = {}
        self._tables: dict[int, _Table] = {}
        self.counters = PayloadCounters()

    def leaves(self, side: int) -> bool:
        return side in self._fields

    def wanted(self, probes: Mapping[int, Rows], found: Mapping[int, list[Found]]) -> Wanted | None:
        """Of a batch; maps are by the number of the *stored* side. None: everything is here. Otherwise `take` must be
        called for each block before anything of the batch is asked for."""
        self._needed, self._parts, self._tables = {}, defaultdict(list), {}
        for side in self._fields:
            for block, own in _by_block(self._places(side, probes, found)):
                self._needed.setdefault(block, {})[side] = own
                self.counters.wanted += len(own)
        for block in [block for block in self._needed if block in self._cache]:
            self.counters.cached += 1
            self._cache.move_to_end(block)
            self._extract(block, self._cache[block])
        if not self._needed:
            self._close()
            return None
        return Wanted(tuple(sorted(self._needed)))

    def _places(self, side: int, probes: Mapping[int, Rows], found: Mapping[int, list[Found]]) -> PayloadPlaces:
        """Of every row of a side that is in a match and has left its payload behind, each once, ascending."""
        parts: list[PayloadPlaces] = []
        for stored_side, chunks in found.items():
            for chunk in chunks:
                if stored_side == side:
                    column = chunk.store.column(self._place_at[side], chunk.stored)
                else:
                    column = probes[stored_side].columns[PLACE].take(chunk.probe)
                parts.append(np.asarray(column.values, np.int64))
        if not parts:
            return np.empty(0, np.int64)
        every = np.unique(np.concatenate(parts))
        if (measured := self._measured.get(side)) is not None:
            everywhere = every if every[0] >= 0 else np.unique(payload_places.known(every))
            measured.wanted += len(everywhere)
            measured.blocks += 1 + int(np.count_nonzero(np.diff(payload_places.blocks_of(everywhere))))
        return every[every >= 0]

    def handle(self, side: int, rows: int) -> None:
        if (measured := self._measured.get(side)) is not None:
            measured.handled += rows

    def demands(self, sender: Producer) -> Iterator[tuple[Address, Demand]]:
        """Of late: half of what was told last still counts."""
        for measured in self._measured.values():
            if measured.handled - measured.kept >= self._demand_rows:
                demand = Demand(sender, measured.relation, measured.handled, measured.wanted, measured.blocks)
                yield Address(Topic.SIGNALS, 0), demand
                measured.forget_half()

    def take(self, block: BlockPlace, record: SourceBlock) -> None:
        self.counters.read += 1
        self.counters.read_bytes += record.nbytes
        self._extract(block, record)
        if record.nbytes <= self._cache_bytes_max:
            self._cache[block] = record
            self.cached_bytes += record.nbytes
        while self.cached_bytes > self._cache_bytes_max:
            _, dropped = self._cache.popitem(last=False)
            self.cached_bytes -= dropped.nbytes
        if not self._needed:
            self._close()

    def _extract(self, block: BlockPlace, record: SourceBlock) -> None:
        for side, own in self._needed.pop(block).items():
            rows = payload_places.rows_of(own)
            columns = {at: record.columns[field].take(rows) for at, field in self._fields[side].items()}
            self._parts[side].append(_Table(own, columns))

    def _close(self) -> None:
        for side, parts in self._parts.items():
            parts.sort(key=lambda part: int(part.places[0]))
            columns = {at: concat_vectors([part.columns[at] for part in parts]) for at in parts[0].columns}
            self._tables[side] = _Table(np.concatenate([part.places for part in parts]), columns)
        self._parts = {}

    def completed(self, side: int, position: int, own: Vector, at: Vector) -> Vector:
        """A column of rows of a side; `at`: their places. What stayed behind comes from the batch's blocks."""
        if position not in self._fields.get(side, ()):
            return own
        rows_places = np.asarray(at.values, np.int64)
        behind = rows_places >= 0
        if not behind.any():
            return own
        assert not self._needed, "a batch is complete before anything is made of it"
        table = self._tables[side]
        fetched = table.columns[position]
        if behind.all():
            return fetched.take(np.searchsorted(table.places, rows_places))
        rows = np.arange(len(own))
        rows[behind] = len(own) + np.searchsorted(table.places, rows_places[behind])
        return concat_vectors([own, fetched]).take(rows)


def _by_block(ascending: PayloadPlaces) -> Iterator[tuple[BlockPlace, PayloadPlaces]]:
    if not len(ascending):
        return
    numbers = payload_places.blocks_of(ascending)
    cuts: NDArray[np.int64] = np.flatnonzero(np.diff(numbers)) + 1
    for part in np.split(ascending, cuts):
        yield BlockPlace(*payload_places.block(int(part[0] >> payload_places.ROW_BITS))), part


def runs_of(blocks: Iterable[BlockPlace]) -> Iterator[tuple[BlockPlace, int]]:
    """(first, how many) of those that follow on, as they can be read in one go; `blocks` in order."""
    first: BlockPlace | None = None
    count = 0
    for block in blocks:
        if first is not None and block == BlockPlace(first.dispatcher, first.offset + count):
            count += 1
            continue
        if first is not None:
            yield first, count
        first, count = block, 1
    if first is not None:
        yield first, count
