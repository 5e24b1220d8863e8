"""Records that leave the system, as messages that people and other tools read.

* Results go to the user's topic: a row as JSON, keyed by its result id (32 hexadecimal digits); or many rows as one
  Arrow IPC stream, which has no key, and the ids as its last column. Rows that stand until the next of their group are
  in order where their keys, the groups' ids, bring them to the same partition; Arrow streams of them go to one.
* Where a trace follows them, the header `traceparent` says so.
* Late tuples go to <prefix>.late: the fields that the query uses, as JSON. Headers: source, partition, offset,
  watermark_us; and row where messages hold many: from 1, or "last".
* Dead records go to <prefix>.dead: the bytes that came. Headers: source, partition, offset, row, place, reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from biclique.core.codec import encode_batch
from biclique.core.places import parts_of_place
from biclique.core.rows import Vector
from biclique.ports.tables import RESULT_ID, file_column, json_objects, result_table
from biclique.ports.trace_context import header_of
from biclique.query.model import Delivery, Format, Kafka, Query, Source
from biclique.query.types import TIMESTAMP
from biclique.query.used import used_fields
from biclique.tiers.cutting import row_stretches
from biclique.tiers.messages import LateTuples, Results, SetAside

# What is encoded at once, and a message of Arrow's: 256 kB at 32 bytes a row.
STRETCH_ROWS = 8_192
STRETCH_BYTES = 3 << 18  # of rows, if they are more than one: what a topic takes by default, and room for the rest
KEY = slice(-34, -2)  # of a row as JSON: the digits of its id, its last member, are cut out of it and not made again


@dataclass(frozen=True, slots=True)
class Mail:
    """Messages by columns: there are too many results to make an object of each. `headers`: of each. `partition`: None:
    wherever their keys bring them, or anywhere."""

    keys: Sequence[bytes | None]
    values: Sequence[bytes]
    headers: Mapping[str, bytes]
    partition: int | None = None


class Parcel(NamedTuple):
    key: bytes | None
    value: bytes
    headers: Mapping[str, bytes]


class Outlets:
    def __init__(self, query: Query) -> None:
        assert isinstance(query.output, Kafka)
        self._query, self._format = query, query.output.format
        self.topic = query.output.topic
        # A row that stands until the next of its group must not be written once more by one who was thought dead.
        standing = query.aggregating and query.tumble_us is None
        self.may_repeat = query.delivery is Delivery.AT_LEAST_ONCE and not standing
        self._partition = 0 if standing and self._format is Format.ARROW else None

    def results(self, results: Results) -> Iterator[Mail]:
        table, headers = result_table(self._query.items, results), header_of(results.trace)
        assert table.column_names[-1] == RESULT_ID
        for start, stop in _stretches(results, len(table)):
            part = table.slice(start, stop - start)
            if self._format is Format.ARROW:
                (batch,) = part.combine_chunks().to_batches()
                yield Mail((None,), (encode_batch(batch),), headers, self._partition)
            else:
                lines = json_objects(part)
                yield Mail([line[KEY] for line in lines], lines, headers)

    def late(self, late: LateTuples) -> Iterator[Parcel]:
        source = self._query.sources[late.source]
        fields = [source.fields[position] for position in used_fields(self._query, late.source)]
        columns = [file_column(vector, field.type) for vector, field in zip(late.columns, fields, strict=True)]
        names = [field.name for field in fields]
        times = file_column(Vector(late.times), TIMESTAMP)
        lines = json_objects(pa.Table.from_arrays([*columns, times], [*names, "_event_time"]))
        for offset, line in zip(late.offsets.tolist(), lines, strict=True):
            headers = _place(source, late.partition, offset) | header_of(late.trace)
            yield Parcel(None, line, headers | {"watermark_us": str(late.watermark).encode()})

    def dead(self, dead: SetAside) -> Iterator[Parcel]:
        source = self._query.sources[dead.source]
        for record in dead.records:
            why = {"place": record.place.encode(), "reason": record.reason.encode()} | header_of(dead.trace)
            yield Parcel(None, record.raw, _place(source, dead.partition, record.offset) | why)


def _stretches(results: Results, count: int) -> Iterator[tuple[int, int]]:
    for start, stop in row_stretches(results.columns, count, STRETCH_BYTES):
        yield from ((first, min(first + STRETCH_ROWS, stop)) for first in range(start, stop, STRETCH_ROWS))


def _place(source: Source, partition: int, place: int) -> dict[str, bytes]:
    offset, row = parts_of_place(source, place)
    found = {"source": source.name, "partition": str(partition), "offset": str(offset)}
    return {name: text.encode() for name, text in (found | ({"row": row} if row else {})).items()}
