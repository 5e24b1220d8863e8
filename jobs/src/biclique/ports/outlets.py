"""Records that leave the system, as messages that people and other tools read.

* Results go to the user's topic: a row as JSON, keyed by its result id (32 hexadecimal digits); or many rows as one
  Arrow IPC stream, which has no key, and the ids as its last column.
* Where a trace follows them, the header `traceparent` says so.
* Late tuples go to <prefix>.late: the fields that the query uses, as JSON. Headers: source, partition, offset,
  watermark_us; and row where messages hold many: from 1, or "last".
* Dead records go to <prefix>.dead: the bytes that came. Headers: source, partition, offset, row, place, reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

ARROW_ROWS = 8_192  # of one message: 256 kB at 32 bytes a row
ARROW_BYTES = 3 << 18  # of rows, if they are more than one: what a topic takes by default, and room for the rest
ID_TEXT = 32


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

    def results(self, results: Results) -> Iterator[Parcel]:
        table, headers = result_table(self._query.items, results), header_of(results.trace)
        if self._format is Format.ARROW:
            for start, stop in _arrow_stretches(results, len(table)):
                (batch,) = table.slice(start, stop - start).combine_chunks().to_batches()
                yield Parcel(None, encode_batch(batch), headers)
            return
        # The id's text is the last member of a row: cut out of it, not made again.
        lines, ends = json_objects(table)
        assert table.column_names[-1] == RESULT_ID
        start = 0
        for end in ends:
            yield Parcel(lines[end - 3 - ID_TEXT : end - 3], lines[start : end - 1], headers)
            start = end

    def late(self, late: LateTuples) -> Iterator[Parcel]:
        source = self._query.sources[late.source]
        fields = [source.fields[position] for position in used_fields(self._query, late.source)]
        columns = [file_column(vector, field.type) for vector, field in zip(late.columns, fields, strict=True)]
        names = [field.name for field in fields]
        times = file_column(Vector(late.times), TIMESTAMP)
        lines, ends = json_objects(pa.Table.from_arrays([*columns, times], [*names, "_event_time"]))
        start = 0
        for offset, end in zip(late.offsets.tolist(), ends, strict=True):
            headers = _place(source, late.partition, offset) | header_of(late.trace)
            yield Parcel(None, lines[start : end - 1], headers | {"watermark_us": str(late.watermark).encode()})
            start = end

    def dead(self, dead: SetAside) -> Iterator[Parcel]:
        source = self._query.sources[dead.source]
        for record in dead.records:
            why = {"place": record.place.encode(), "reason": record.reason.encode()} | header_of(dead.trace)
            yield Parcel(None, record.raw, _place(source, dead.partition, record.offset) | why)


def _arrow_stretches(results: Results, count: int) -> Iterator[tuple[int, int]]:
    for start, stop in row_stretches(results.columns, count, ARROW_BYTES):
        yield from ((first, min(first + ARROW_ROWS, stop)) for first in range(start, stop, ARROW_ROWS))


def _place(source: Source, partition: int, place: int) -> dict[str, bytes]:
    offset, row = parts_of_place(source, place)
    found = {"source": source.name, "partition": str(partition), "offset": str(offset)}
    return {name: text.encode() for name, text in (found | ({"row": row} if row else {})).items()}
