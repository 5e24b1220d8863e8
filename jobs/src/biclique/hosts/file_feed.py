"""Files as a feed: the blocks of a reader (hosts/reading.py), packed.

A source that is read to its end holds the watermark up no longer, once it has been quiet for `idleAfter`; of files that
do not grow that is known at once.
"""

from __future__ import annotations

import time
from collections import deque

import numpy as np

from biclique.core.codec import from_arrow
from biclique.core.stamps import ROW_BITS
from biclique.hosts.frames import BlockFrame
from biclique.hosts.local_tiers import PARTITION
from biclique.hosts.reading import SourceReader
from biclique.ports.run_state import SourceState
from biclique.query.model import Query
from biclique.tiers.messages import DeadRecord, Heartbeat, SourceBlock
from biclique.tiers.shuffler import Shuffler


class FileFeed:
    """`last`: the place of the last record that its dispatcher has taken, -1 where there is none; `attempt`: of this
    process."""

    partitions = (PARTITION,)

    def __init__(self, query: Query, reader: SourceReader, follow: bool, last: int, attempt: int) -> None:
        self.number = reader.number
        self._reader, self._follow, self._attempt = reader, follow, attempt
        self._idle_after_ms = query.sources[reader.number].event_time.idle_after_us // 1000
        self._shuffler = Shuffler(query, reader.number)
        self._last, self._predecessor = last, -1
        self._beats: deque[Heartbeat] = deque()
        self._resting = False

    @property
    def state(self) -> SourceState:
        return self._reader.state

    @property
    def caught_up(self) -> bool:
        return self._reader.caught_up and not self._beats

    @property
    def ahead_bytes(self) -> int:
        return self._reader.ahead_bytes

    def bytes_known(self) -> tuple[int, int]:
        return self._reader.bytes_known()

    def start(self) -> None:
        self._reader.start()
        self._rest_if_caught_up()  # as it was when an earlier run stopped, or because there is no row at all

    def look(self) -> None:
        self._reader.look_for_files()
        if self._reader.caught_up:
            # Not the engine's clock, which barriers move on: this one is to measure how long it was quiet.
            self._beats.append(self._beat(int(time.monotonic() * 1000)))

    def take(self) -> tuple[SourceBlock | Heartbeat, ...]:
        frame = self._reader.take()
        blocks = () if frame is None else (self._packed(frame),)
        self._rest_if_caught_up()
        beats = tuple(self._beats)
        self._beats.clear()
        return (*blocks, *beats)

    def file_name(self, ordinal: int) -> str:
        return self._reader.file_name(ordinal)

    def close(self) -> None:
        self._reader.close()

    def _rest_if_caught_up(self) -> None:
        if self._reader.caught_up and not self._resting and not self._follow:
            self._beats.extend(self._beat(at_ms) for at_ms in (0, self._idle_after_ms))
        self._resting = self._reader.caught_up

    def _beat(self, at_ms: int) -> Heartbeat:
        return Heartbeat(self.number, PARTITION, self._last, at_ms, self._attempt)

    def _packed(self, frame: BlockFrame) -> SourceBlock:
        block, base = frame.block, frame.ordinal << ROW_BITS
        dead = tuple(
            DeadRecord(base + bad.row, bad.raw, self._place(frame.ordinal, bad.row, bad.column), bad.reason)
            for bad in block.bad
        )
        offsets = block.rows + base
        columns = [from_arrow(a, f.type) for a, f in zip(block.columns, self._reader.wanted.fields, strict=True)]
        if self._reader.wanted.time is None:
            times = np.zeros(len(offsets), np.int64)
        else:
            times = np.asarray(columns[self._reader.wanted.time].values, np.int64)
        used = [columns[position] for position in self._reader.used]
        packed = self._shuffler.pack(PARTITION, self._predecessor, offsets, times, used, dead)
        self._last = self._predecessor = base + block.first_row + block.count - 1
        return packed

    def _place(self, ordinal: int, row: int, column: str) -> str:
        place = f"{self._reader.file_name(ordinal)}, row {row + 1}"
        return f"{place}, column {column}" if column else place
