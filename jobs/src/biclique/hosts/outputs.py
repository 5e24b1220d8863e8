"""From what the tiers send out to files: results, and the records set aside as late or dead.

Writing is another thread's work: parquet and CSV are written without holding Python up. What waits for it is bounded,
in tables and in bytes, so a slow disk slows the join instead of filling memory. Nothing is visible before its barrier
is true (ports/file_sink.py).
"""

from __future__ import annotations

import json
import queue
import threading
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

from biclique.core.places import parts_of_place, row_bits
from biclique.core.rows import Vector
from biclique.core.stamps import ROW_BITS
from biclique.ports.file_sink import FileSink, written_parts
from biclique.ports.tables import file_column, result_table
from biclique.query.model import Files, Format, Query
from biclique.query.types import TIMESTAMP
from biclique.query.used import used_fields
from biclique.tiers.messages import LateTuples, Results, SetAside

RESULTS, LATE, DEAD = "", "_late", "_dead"
FOLDERS = (RESULTS, LATE, DEAD)
TABLES_AHEAD, BYTES_AHEAD = 8, 1 << 28


class Outputs:
    """`file_name(source, ordinal)`: for the place of a record that is set aside. `barrier`: the last true one.
    `bytes_ahead`: of the tables that wait to be written; one alone may have more."""

    def __init__(
        self,
        query: Query,
        root: Path,
        file_name: Callable[[int, int], str],
        barrier: int,
        bytes_ahead: int = BYTES_AHEAD,
    ) -> None:
        assert isinstance(query.output, Files)
        self._query, self._file_name = query, file_name
        self._sinks = {
            RESULTS: FileSink(root, RESULTS, query.output.format),
            LATE: FileSink(root, LATE, Format.JSON),
            DEAD: FileSink(root, DEAD, Format.JSON),
        }
        self._barrier = barrier + 1
        for sink in self._sinks.values():
            sink.barrier = self._barrier
        self.rows = 0
        self._queue: queue.Queue[tuple[str, pa.Table] | None] = queue.Queue(TABLES_AHEAD)
        self._bytes_ahead, self.bytes_waiting = bytes_ahead, 0
        self._written = threading.Condition()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._write, name="writing", daemon=True)
        self._thread.start()

    # --- what comes in -----------------------------------------------------------------------------------------------

    def results(self, results: Results) -> None:
        self.rows += len(results.ids_high)
        self._put(RESULTS, result_table(self._query.items, results))

    def late(self, late: LateTuples) -> None:
        fields = self._query.sources[late.source].fields
        used = used_fields(self._query, late.source)
        count = len(late.offsets)
        columns = {
            "_source": _constant(self._query.sources[late.source].name, count),
            **{f"_{name}": column for name, column in self._places(late.source, late.partition, late.offsets).items()},
            "_event_time": _instants(late.times),
            "_watermark": _instants(np.full(count, late.watermark, np.int64)),
        }
        columns |= {
            fields[position].name: file_column(vector, fields[position].type)
            for position, vector in zip(used, late.columns, strict=True)
        }
        self._put(LATE, pa.table(columns))

    def dead(self, dead: SetAside) -> None:
        """`raw` is the record as text, `raw_base64` its bytes where they are no text."""
        texts = [_text(record.raw) for record in dead.records]
        encoded = [
            b64encode(record.raw).decode() if text is None else None
            for record, text in zip(dead.records, texts, strict=True)
        ]
        offsets = np.array([record.offset for record in dead.records], np.int64)
        columns = {
            "source": _constant(self._query.sources[dead.source].name, len(texts)),
            **self._places(dead.source, dead.partition, offsets),
            "place": pa.array([record.place for record in dead.records]),
            "reason": pa.array([record.reason for record in dead.records]),
            "raw": pa.array(texts, pa.string()),
            "raw_base64": pa.array(encoded, pa.string()),
        }
        self._put(DEAD, pa.table(columns))

    def _places(self, source: int, partition: int, places: np.ndarray) -> dict[str, pa.Array]:
        """Of a file: which, and the row. Of a topic: partition and offset, and the row where a message has many."""
        declared = self._query.sources[source]
        if isinstance(declared.input, Files):
            rows = pa.array((places & ((1 << ROW_BITS) - 1)) + 1)
            return {"file": self._files(source, places), "row": rows}
        found = [parts_of_place(declared, place) for place in places.tolist()]
        columns = {
            "partition": pa.array([partition] * len(found), pa.int32()),
            "offset": pa.array([offset for offset, _ in found], pa.int64()),
        }
        return columns | ({"row": pa.array([row for _, row in found], pa.string())} if row_bits(declared) else {})

    def _files(self, source: int, offsets: np.ndarray) -> pa.Array:
        ordinals = offsets >> ROW_BITS
        names = {int(ordinal): self._file_name(source, int(ordinal)) for ordinal in np.unique(ordinals)}
        return pa.array([names[ordinal] for ordinal in ordinals.tolist()], pa.string())

    # --- barriers ----------------------------------------------------------------------------------------------------

    def seal(self) -> tuple[str, ...]:
        """All that came is on disk under hidden names; these."""
        self._queue.join()
        self._raise()
        return tuple(name for sink in self._sinks.values() for name in sink.seal())

    def committed(self) -> None:
        """The barrier that was sealed is true: what comes from now on belongs to the next."""
        self._barrier += 1
        for sink in self._sinks.values():
            sink.barrier = self._barrier

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        for sink in self._sinks.values():
            sink.discard()

    def _put(self, folder: str, table: pa.Table) -> None:
        self._raise()
        with self._written:
            self._written.wait_for(
                lambda: not self.bytes_waiting or self.bytes_waiting + table.nbytes <= self._bytes_ahead
            )
            self.bytes_waiting += table.nbytes
        self._queue.put((folder, table))

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _write(self) -> None:
        while (item := self._queue.get()) is not None:
            try:
                if self._failure is None:
                    self._sinks[item[0]].write(item[1])
            except Exception as error:  # raised where the engine next hands something over
                self._failure = error
            finally:
                with self._written:
                    self.bytes_waiting -= item[1].nbytes
                    self._written.notify()
                self._queue.task_done()


def first_dead(root: Path) -> str:
    """Place and reason of the first record of all runs that was set aside; empty: there is none, or no longer."""
    for path in written_parts(root, [DEAD]):
        with path.open(encoding="utf-8") as file:
            record = json.loads(file.readline())
        sentence = f"{record['place']}: {record['reason']}"
        return "".join(character if character.isprintable() else "?" for character in sentence)
    return ""


def _constant(text: str, count: int) -> pa.Array:
    return pa.array([text], pa.string()).take(pa.array(np.zeros(count, np.int64)))


def _instants(times: np.ndarray) -> pa.Array:
    return file_column(Vector(times), TIMESTAMP)


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None
