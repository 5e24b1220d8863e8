"""Blocks read back as plain Python: one piece for each row, with its columns by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from biclique.core.rows import Rows, Vector
from biclique.plan.model import Plan
from biclique.query.expression import Column, Expression, Scalar
from biclique.routing.protocol import Role
from biclique.routing.table import UnitId
from biclique.tiers.messages import Block, Producer, unit_address
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
    assert len(columns) == len(rows.columns)
    by_row = zip(*map(scalars, rows.columns), strict=True) if columns else iter([()] * len(rows))
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
                columns = plan.stages[record.stage].sides[record.side].columns
                for piece in self._pieces(record.rows, columns):
                    yield Given(offset, record.side, record.role, record.sender, piece)

    def _pieces(self, rows: Rows, columns: tuple[Column, ...]) -> list[Piece]:
        found = self._read.get(id(rows))
        if found is None:
            found = self._read[id(rows)] = pieces_of(rows, columns)
        return found


def holds(conjunct: Expression, values: Mapping[Column, Scalar]) -> bool:
    """A conjunct of WHERE or ON: unknown and failed are not true."""
    return evaluate(conjunct, values) is True
