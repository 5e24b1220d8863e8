"""What parsing makes of a block of records: typed columns of the good ones, and a verdict on each of the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from biclique.hosts.parsing.columns import Faults
from biclique.query.model import Field


class BadRow(NamedTuple):
    row: int  # from the file's start
    column: str  # "" where the record as a whole is at fault
    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """The fields to read, in the order of the source's schema. `time`: which of them is the event time; None: none."""

    fields: tuple[Field, ...]
    time: int | None


@dataclass(frozen=True, slots=True, eq=False)
class ParsedBlock:
    """`rows` (from the file's start) and `columns` are of the good records, in order; `count` is of all records.

    `resume`: where in the file the next block begins, for a reader to come back to (a byte offset; a row for parquet).
    """

    first_row: int
    count: int
    rows: NDArray[np.int64]
    columns: tuple[pa.Array, ...]
    bad: tuple[BadRow, ...]
    resume: int


@dataclass(frozen=True, slots=True)
class Verdict:
    column: str
    reason: str


def absent_values(wanted: Wanted, columns: Sequence[pa.Array]) -> dict[int, Verdict]:
    """Nulls where the schema, or the event time, forbids them."""
    verdicts: dict[int, Verdict] = {}
    for position, (field, column) in enumerate(zip(wanted.fields, columns, strict=True)):
        if not column.null_count:
            continue
        if position == wanted.time:
            reason = "the event time is null"
        elif not field.nullable:
            reason = "null, but the schema says NOT NULL"
        else:
            continue
        for row in np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False)).tolist():
            verdicts.setdefault(row, Verdict(field.name, reason))
    return verdicts


def first_faults(wanted: Wanted, faults: Iterable[Faults]) -> dict[int, Verdict]:
    """One verdict a row: of the first column at fault."""
    verdicts: dict[int, Verdict] = {}
    for field, of_column in zip(wanted.fields, faults, strict=True):
        for row, reason in of_column.items():
            verdicts.setdefault(row, Verdict(field.name, reason))
    return verdicts


def without(
    columns: Sequence[pa.Array], count: int, bad: Mapping[int, object]
) -> tuple[NDArray[np.int64], tuple[pa.Array, ...]]:
    """The positions that are not in `bad`, and the columns at them."""
    if not bad:
        return np.arange(count), tuple(columns)
    good = np.ones(count, np.bool_)
    good[list(bad)] = False
    mask = pa.array(good)
    return np.flatnonzero(good), tuple(column.filter(mask) for column in columns)
