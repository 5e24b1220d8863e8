"""Blocks read back as plain Python: one piece for each row, with its columns by name. What rows left behind in shuffled
is looked up there, value by value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import tuple_id
from biclique.plan.model import BESIDE_KEYS, PLACE, Plan, Side
from biclique.query.expression import Column, Expression, Scalar
from biclique.query.used import used_fields
from biclique.routing.protocol import Role
from biclique.routing.table import UnitId
from biclique.tiers.messages import Address, Block, Mark, Producer, Record, SourceBlock, Topic, unit_address
from tests.model.evaluate import evaluate
from tests.model.evidence import Evidence


@dataclass(frozen=True, slots=True)
class Piece:
    """A tuple, or a partial result of several: `ids` in plan order."""

    stamp: int
    ids: tuple[int, ...]
    newest: int
    oldest: int
    values: Mapping[Column, Scalar]


@dataclass(frozen=True, slots=True)
class Given:
    """A row as a unit got it."""

    offset: int
    side: int
    role: Role
    sender: Producer
    piece: Piece


def scalars(vector: Vector) -> list[Scalar]:
    values = vector.values.to_pylist() if isinstance(vector.values, pa.Array) else vector.values.tolist()
    if vector.valid is None:
        return values
    return [value if there else None for value, there in zip(values, vector.valid.tolist(), strict=True)]


def pieces_of(rows: Rows, columns: tuple[Column, ...]) -> list[Piece]:
    beside = len(rows.columns) - len(columns)
    assert beside in (0, len(BESIDE_KEYS))
    by_row = zip(*map(scalars, rows.columns[: len(columns)]), strict=True) if columns else iter([()] * len(rows))
    ids = zip(*(part.tolist() for part in rows.ids), strict=True)
    return [
        Piece(stamp, identity, newest, oldest, dict(zip(columns, values, strict=True)))
        for stamp, identity, newest, oldest, values in zip(
            rows.stamps.tolist(), ids, rows.newest.tolist(), rows.oldest.tolist(), by_row, strict=True
        )
    ]


class Logs:
    """The units' part of the evidence, read once."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._lower = evidence.lower
        self._read: dict[int, list[Piece]] = {}  # one Rows object often stands in many blocks
        self._shuffled: dict[int, dict[int, Record]] = {}
        self._given: dict[UnitId, list[Given]] = {}

    @property
    def units(self) -> list[UnitId]:
        return sorted(self._lower)

    def given(self, unit: UnitId) -> list[Given]:
        """Every row that this generation of the unit was sent, in the order of its log."""
        if unit not in self._given:
            self._given[unit] = list(self._rows_for(unit))
        return self._given[unit]

    def _rows_for(self, unit: UnitId) -> Iterator[Given]:
        plan: Plan = self._evidence.plan
        successors = [u for u in self._lower if u[:2] == unit[:2] and u.generation > unit.generation]
        upper = min((self._lower[u] for u in successors), default=None)
        for offset, record in self._evidence.logs.get(unit_address(unit), ()):
            if offset < self._lower[unit] or (upper is not None and offset >= upper):
                continue
            if isinstance(record, Block):
                side = plan.stages[record.stage].sides[record.side]
                for piece in self._pieces(record, side):
                    yield Given(offset, record.side, record.role, record.sender, piece)

    def _pieces(self, block: Block, side: Side) -> list[Piece]:
        found = self._read.get(id(block.rows))
        if found is None:
            found = pieces_of(block.rows, side.columns)
            if not block.whole:
                places = block.rows.columns[PLACE].values.tolist()
                found = [self._completed(piece, place, side) for piece, place in zip(found, places, strict=True)]
            self._read[id(block.rows)] = found
        return found

    def _completed(self, piece: Piece, place: int, side: Side) -> Piece:
        """A place names dispatcher, block and row; the row must be of the very record that the id names."""
        dispatcher, offset, row = place >> 56, (place >> 20) & ((1 << 36) - 1), place & ((1 << 20) - 1)
        if dispatcher not in self._shuffled:
            self._shuffled[dispatcher] = dict(self._evidence.logs[Address(Topic.SHUFFLED, dispatcher)])
        block = self._shuffled[dispatcher][offset]
        assert isinstance(block, SourceBlock)
        query, (relation,) = self._evidence.plan.query, side.relations
        named = block.offsets[block.marks == Mark.GOOD.value][row]
        assert tuple_id(relation, block.partition, int(named)) == piece.ids[0], f"{piece} is not in row {row}"
        fields = used_fields(query, query.relations[relation].source)
        values = dict(piece.values)
        for position in side.payload:
            column = side.columns[position]
            assert values[column] in (0, "", False), f"{piece} brings along what it left behind"
            (values[column],) = scalars(block.columns[fields.index(column.field)].slice(row, row + 1))
        return replace(piece, values=values)


def holds(conjunct: Expression, values: Mapping[Column, Scalar]) -> bool:
    """A conjunct of WHERE or ON: unknown and failed are not true."""
    return evaluate(conjunct, values) is True
