"""The embedded engine on small files, without Java: reading tasks run in threads of this process, everything else is
real.

`Given` is a query with its rows; it writes them as files of any format, runs the engine, reads the output back with
another library, and asks the oracle what should be there.
"""

from __future__ import annotations

import csv
import datetime
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from biclique.hosts.embedded import Engine, Options, Outcome
from biclique.hosts.file_task import ReadTask, run_task
from biclique.plan.make import make_plan
from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from biclique.query.types import Kind, Type
from tests.model.oracle import Tuple, expected

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
FORMATS = ("parquet", "csv", "json")


class ThreadTasks:
    """Reading tasks in threads. `Engine` takes it in place of Spark."""

    def __init__(self, slots: int, log: Path) -> None:
        self._threads: list[threading.Thread] = []

    def wait(self) -> None:
        pass

    def submit(self, task: ReadTask, failed: Callable[[str], None]) -> None:
        def run() -> None:
            try:
                run_task(task)
            except Exception as error:
                failed(repr(error))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self._threads.append(thread)

    def stop(self) -> None:
        for thread in self._threads:
            thread.join()


@dataclass
class Given:
    """`rows`: of each source, in memory form (query/types.py), None for null."""

    folder: Path
    sql: str
    schemas: dict[str, str]
    rows: dict[str, list[tuple[Any, ...]]]
    format: str = "parquet"
    lateness: str = "1h"
    time: str = "at"
    more: str = ""  # of every source
    end: str = ""  # of the spec
    files: dict[str, list[int]] = field(default_factory=dict)  # how many rows each file has

    @property
    def manifest(self) -> str:
        sources = "\n".join(
            f"    - {{name: {name}, schema: '{schema}', eventTime: {{column: {self.time}, lateness: {self.lateness}}},"
            f" files: {{path: {name}, format: {self.format}}}{self.more}}}"
            for name, schema in self.schemas.items()
        )
        sql = "\n".join(f"    {line}" for line in self.sql.splitlines())
        return (
            "apiVersion: biclique.dev/v1alpha1\nkind: JoinQuery\nmetadata: {name: given}\nspec:\n  sources:\n"
            f"{sources}\n  sql: |\n{sql}\n  output: {{files: {{path: out, format: {self.format}}}}}\n{self.end}"
        )

    @property
    def query(self) -> Query:
        return compile_manifest(self.manifest, str(self.folder))

    @property
    def out(self) -> Path:
        return self.folder / "out"

    def write(self) -> None:
        for number, source in enumerate(self.query.sources):
            folder = self.folder / source.name
            folder.mkdir(exist_ok=True)
            rows = self.rows[source.name]
            at = 0
            for ordinal, count in enumerate(self.files.get(source.name, [len(rows)])):
                self.write_file(number, f"{ordinal:03d}", rows[at : at + count])
                at += count

    def write_file(self, source: int, name: str, rows: Sequence[tuple[Any, ...]]) -> Path:
        declared = self.query.sources[source]
        path = self.folder / declared.name / f"{name}.{self.format}"
        types = [f.type for f in declared.fields]
        names = [f.name for f in declared.fields]
        if self.format == "parquet":
            arrays = [pa.array([as_python(row[i], t) for row in rows], file_type(t)) for i, t in enumerate(types)]
            pq.write_table(pa.table(arrays, names=names), path, row_group_size=7)
        elif self.format == "csv":
            lines = [",".join(names)] + [
                ",".join("" if v is None else as_csv(v, t) for v, t in zip(row, types, strict=True)) for row in rows
            ]
            path.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8", newline="")
        else:
            lines = [
                json.dumps({n: as_json(v, t) for n, v, t in zip(names, row, types, strict=True) if v is not None})
                for row in rows
            ]
            path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    def run(self, stop: Callable[[], bool] = lambda: False, **options: Any) -> Outcome:
        return self.engine(stop, **options).run()

    def engine(self, stop: Callable[[], bool] = lambda: False, **options: Any) -> Engine:
        settings = {"look_seconds": 0.01, "barrier_seconds": 60.0} | options
        return Engine(make_plan(self.query), Options(**settings), stop, lambda facts: None, ThreadTasks)

    def expected(self) -> Counter[tuple[object, ...]]:
        relations = []
        for relation in self.query.relations:
            source = self.query.sources[relation.source]
            time = source.event_time.column
            assert time is not None
            relations.append(
                [Tuple(n, row[time], row) for n, row in enumerate(self.rows[source.name]) if row[time] is not None]
            )
        found: Counter[tuple[object, ...]] = Counter()
        for (_, values), count in expected(self.query, relations).items():
            found[values] += count
        return found

    def found(self) -> Counter[tuple[object, ...]]:
        """The values of every row in the output, in memory form; every result id must be there once."""
        types = [item.type for item in self.query.items]
        rows = [row for path in parts(self.out) for row in read_part(path, types)]
        ids = [row[-1] for row in rows]
        assert len(ids) == len(set(ids)), "a result id stands twice"
        return Counter(tuple(row[:-1]) for row in rows)


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if not path.name.startswith(("_", ".")))


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in parts(folder) for line in path.read_text(encoding="utf-8").splitlines()]


# --- values in files, by Python's own libraries ----------------------------------------------------------------------


def file_type(kind: Type) -> pa.DataType:
    match kind.kind:
        case Kind.INTEGER:
            return {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[kind.bits]
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        case Kind.TIMESTAMP:
            return pa.timestamp("us")
        case Kind.DATE:
            return pa.date32()
        case other:
            return {Kind.DOUBLE: pa.float64(), Kind.BOOLEAN: pa.bool_(), Kind.STRING: pa.string()}[other]


def as_python(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    match kind.kind:
        case Kind.DECIMAL:
            return Decimal(value).scaleb(-kind.scale)
        case Kind.TIMESTAMP:
            return (EPOCH + datetime.timedelta(microseconds=value)).replace(tzinfo=None)
        case Kind.DATE:
            return EPOCH.date() + datetime.timedelta(days=value)
        case _:
            return value


def as_csv(value: Any, kind: Type) -> str:
    shown = as_python(value, kind)
    if kind.kind is Kind.STRING:
        return '"' + str(shown).replace('"', '""') + '"'
    if kind.kind is Kind.TIMESTAMP:
        return str(shown.isoformat())
    return str(shown).lower() if kind.kind is Kind.BOOLEAN else str(shown)


def as_json(value: Any, kind: Type) -> Any:
    shown = as_python(value, kind)
    if kind.kind in (Kind.DECIMAL, Kind.DATE):
        return str(shown)
    if kind.kind is Kind.TIMESTAMP:
        return shown.isoformat() + "Z"
    if kind.kind is Kind.DOUBLE and shown != shown:
        return "NaN"
    return shown


def read_part(path: Path, types: Sequence[Type]) -> list[list[Any]]:
    if path.suffix == ".parquet":
        table = pq.read_table(path)
        columns = [column.to_pylist() for column in table.columns]
        rows = [list(row) for row in zip(*columns, strict=True)]
        return [[*(of_python(v, t) for v, t in zip(row[:-1], types, strict=True)), row[-1].hex()] for row in rows]
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as file:
            body = list(csv.reader(file))[1:]
        return [[*(of_text(v, t) for v, t in zip(row[:-1], types, strict=True)), row[-1]] for row in body]
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        values = list(json.loads(line, parse_float=Decimal).values())
        found.append([*(of_json(v, t) for v, t in zip(values[:-1], types, strict=True)), values[-1]])
    return found


def of_python(value: Any, kind: Type) -> Any:
    match value:
        case Decimal() if kind.kind is Kind.DECIMAL:
            return int(value.scaleb(kind.scale))
        case Decimal():
            return normal(float(value))
        case datetime.datetime():
            moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return (moment - EPOCH) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - EPOCH.date()).days
        case float():
            return normal(value)
        case _:
            return value


def normal(value: float) -> object:
    return "NaN" if value != value else value + 0.0


def of_text(text: str, kind: Type) -> Any:
    """Without quotes in sight an empty field is read as null: the tests keep empty strings out of CSV."""
    if text == "":
        return None
    match kind.kind:
        case Kind.INTEGER:
            return int(text)
        case Kind.DOUBLE:
            return normal(float(text))
        case Kind.DECIMAL:
            return of_python(Decimal(text), kind)
        case Kind.BOOLEAN:
            return {"true": True, "false": False}[text]
        case Kind.DATE:
            return of_python(datetime.date.fromisoformat(text), kind)
        case Kind.TIMESTAMP:
            return of_python(datetime.datetime.fromisoformat(text), kind)
        case _:
            return text


def of_json(value: Any, kind: Type) -> Any:
    if value is None:
        return None
    if kind.kind in (Kind.DATE, Kind.TIMESTAMP):
        return of_text(value, kind)
    if kind.kind is Kind.DOUBLE:
        return normal(float(value))
    return of_python(Decimal(value), kind) if kind.kind is Kind.DECIMAL else value


# --- rows ------------------------------------------------------------------------------------------------------------

START = 1_700_000_000_000_000


def some_rows(seed: int, count: int, nulls: float = 0.1) -> list[tuple[Any, ...]]:
    """(id BIGINT, k INT, x DOUBLE, m DECIMAL(6,2), s STRING, b BOOLEAN, d DATE, at TIMESTAMP), ties everywhere, a
    little out of order."""
    rng = random.Random(seed)

    def maybe(value: Any) -> Any:
        return None if rng.random() < nulls else value

    return [
        (
            n,
            maybe(rng.randrange(6)),
            maybe(rng.choice([0.0, -0.0, 0.5, 1.5, -2.25, float("nan"), 3.0])),
            maybe(rng.randrange(-300, 300)),
            maybe(rng.choice(["a", "b", 'c"d', "e,f", "é\n", "\\"])),
            maybe(rng.random() < 0.5),
            maybe(rng.randrange(-3, 3)),
            START + (n + rng.randrange(-3, 3)) * 1_000_000,
        )
        for n in range(count)
    ]


SCHEMA = "id BIGINT, k INT, x DOUBLE, m DECIMAL(6,2), s STRING, b BOOLEAN, d DATE, at TIMESTAMP"
