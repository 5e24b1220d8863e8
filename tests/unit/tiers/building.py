"""Small queries and blocks, so that a test states only what it is about."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from biclique.core.rows import Rows, Vector
from biclique.core.stamps import stamp_base
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from biclique.tiers.messages import DeadRecord, Heartbeat, Mark, Record, Signal, SourceBlock
from biclique.tiers.messages import Producer as Sender

SOURCE = """
    - name: {name}
      schema: "k INT, v BIGINT, name STRING, at TIMESTAMP"
      eventTime: {{column: at, lateness: 0s, idleAfter: 60ms}}
      onBadRecord: {on_bad}
      files: {{path: {name}, format: parquet}}"""


def query(sql: str, sources: str = "rs", on_bad: str = "deadLetter", extra: str = "") -> Query:
    made = "".join(SOURCE.format(name=name, on_bad=on_bad) for name in sources)
    return compile_manifest(
        f"""
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: test}}
spec:
  sources:{made}
  sql: "{sql}"
  output: {{files: {{path: out, format: parquet}}}}
{extra}
"""
    )


def plan(sql: str, sources: str = "rs", on_bad: str = "deadLetter", extra: str = "") -> Plan:
    return make_plan(query(sql, sources, on_bad, extra))


def rows(
    stamps: Sequence[int], times: Sequence[int], *columns: Sequence[int], ids: Sequence[int] | None = None
) -> Rows:
    """Rows of one relation. `stamps`: epochs; equal ones get positions in order."""
    given: list[int] = []
    position = 0
    for i, epoch in enumerate(stamps):
        position = position + 1 if i and epoch == stamps[i - 1] else 0
        given.append(stamp_base(epoch, 0) + position)
    newest = np.array(times, np.int64)
    identities = np.array(given if ids is None else ids, np.uint64).astype(np.int64)
    vectors = tuple(Vector(np.array(column, np.int64)) for column in columns)
    return Rows(np.array(given, np.uint64), (identities,), newest, newest, vectors)


def source_block(
    offsets: Sequence[int],
    times: Sequence[int] | None = None,
    predecessor: int = -1,
    values: Sequence[int] | None = None,
    filtered: Sequence[int] = (),
    dead: Sequence[int] = (),
    source: int = 0,
    fields: int = 1,
) -> SourceBlock:
    """Records of partition 0; `filtered` and `dead` name offsets. Every used field holds `values`."""
    times = times or [0] * len(offsets)
    marks = np.array(
        [Mark.FILTERED.value if o in filtered else Mark.DEAD.value if o in dead else Mark.GOOD.value for o in offsets],
        np.int8,
    )
    good = marks == Mark.GOOD.value
    column = np.array(values or [1] * len(offsets), np.int64)[good]
    return SourceBlock(
        source,
        0,
        predecessor,
        np.array(offsets, np.int64),
        marks,
        np.array(times, np.int64),
        tuple(Vector(column.astype(np.int32)) for _ in range(fields)),
        tuple(DeadRecord(o, b"?", f"row {o}", "unreadable") for o in dead),
    )


def numbered(records: Sequence[Record]) -> list[tuple[int, Record]]:
    """As read from a log."""
    return list(enumerate(records))


def beat(position: int, caught_up_ms: int, attempt: int = 0, source: int = 0) -> Heartbeat:
    return Heartbeat(source, 0, position, caught_up_ms, attempt)


def signal(
    sender: Sender,
    epoch: int,
    watermark: int = 0,
    idle: bool = False,
    version: int = 0,
    first_epoch: int = 0,
    carried: bool = False,
    ended: bool = False,
) -> Signal:
    return Signal(sender, epoch, watermark, idle, version, first_epoch, carried, ended)
