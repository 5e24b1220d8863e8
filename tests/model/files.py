"""Input and output files as plain Python reads them: what the engine read and wrote, sharing no code with it.

A value comes out in the memory form of query/types.py. A record that does not fit the schema has no values: whoever
compares knows by that which records must have been dead-lettered.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from biclique.query.expression import Scalar
from biclique.query.model import Field, Files, Format, Item, Source
from biclique.query.types import Kind, Type

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class Record:
    """`file`: its name without folders; `row`: counted from 1. `values` None: it does not fit the schema."""

    file: str
    row: int
    values: tuple[Scalar, ...] | None


def records(source: Source) -> Iterator[Record]:
    assert isinstance(source.input, Files)
    for path in visible(Path(source.input.path)):
        for row, raw in enumerate(raw_rows(path, source.input.format), 1):
            yield Record(path.name, row, fitting(raw, source.fields, source.event_time.column))


def fitting(raw: dict[str, Any], fields: Sequence[Field], time: int | None) -> tuple[Scalar, ...] | None:
    try:
        values = tuple(memory_form(raw[field.name], field.type) for field in fields)
    except (ValueError, InvalidOperation, KeyError):
        return None
    for position, (field, value) in enumerate(zip(fields, values, strict=True)):
        if value is None and (position == time or not field.nullable):
            return None
    return values


def results(folder: Path, form: Format, items: Sequence[Item]) -> Iterator[tuple[tuple[Scalar, ...], str]]:
    """The values of each row of the output, and its result id."""
    for path in visible(folder):
        for row in raw_rows(path, form):
            assert list(row) == [*(item.name for item in items), "_result_id"]
            result_id = row["_result_id"]
            yield (
                tuple(memory_form(row[item.name], item.type) for item in items),
                result_id.hex() if isinstance(result_id, bytes) else result_id,
            )


def set_aside(folder: Path) -> list[dict[str, Any]]:
    return [row for path in visible(folder) for row in raw_rows(path, Format.JSON)] if folder.exists() else []


def visible(path: Path) -> Iterable[Path]:
    return [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "_.")


def raw_rows(path: Path, form: Format) -> Iterator[dict[str, Any]]:
    match form:
        case Format.PARQUET:
            yield from pq.read_table(path).to_pylist()
        case Format.CSV:
            with path.open(encoding="utf-8", newline="") as file:
                for row in csv.DictReader(file):
                    yield {name: value if value != "" else None for name, value in row.items()}
        case _:
            with path.open(encoding="utf-8") as file:
                for line in file:
                    yield json.loads(line, parse_float=Decimal)


def memory_form(value: Any, wanted: Type) -> Scalar:
    if value is None:
        return None
    match wanted.kind:
        case Kind.INTEGER:
            return int(value)
        case Kind.DOUBLE:
            return float(value)
        case Kind.DECIMAL:
            unscaled = Decimal(value).scaleb(wanted.scale)
            if unscaled != int(unscaled) or abs(unscaled) >= 10**wanted.precision:
                raise ValueError(f"{value} is no {wanted}")
            return int(unscaled)
        case Kind.BOOLEAN:
            return value if isinstance(value, bool) else {"true": True, "false": False}[value]
        case Kind.STRING:
            return str(value)
        case Kind.DATE:
            day = value if isinstance(value, date) else date.fromisoformat(value)
            return (day - EPOCH.date()).days
        case Kind.TIMESTAMP | Kind.INTERVAL:
            moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
            return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND
