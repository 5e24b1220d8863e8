"""The shuffler's logic: parsed records of one source in, source blocks out. Stateless; whatever it repeats, a
dispatcher drops.

A record is GOOD if it passes the filters of at least one relation made of its source (a self-join makes two), FILTERED
if it passes none, DEAD if it could not be read. Every record reaches the block as a mark, so that the dispatcher can
account for each exactly once; only GOOD ones bring their columns.

A record of a source that is read as it is written is DEAD, too, if its event time is ahead of its arrival by more than
`maxFutureSkew`: one such time would carry the watermark with it, and make all that is on time late. No clock is read
here: the arrival comes with the record, so that a retry says the same. A file may hold any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from biclique.core.places import place_text
from biclique.core.rows import Mask, Vector
from biclique.kernels.evaluate import Predicate
from biclique.kernels.texts import timestamp_text
from biclique.query.model import Query
from biclique.tiers.cutting import kept_raw
from biclique.tiers.entry import relation_filter
from biclique.tiers.messages import DeadRecord, Mark, SourceBlock


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Of the readable records of a source that is read as it is written: when each came, in microseconds (its append
    time as the source gives it, else its reader's clock), and its bytes."""

    times: NDArray[np.int64]
    raw: Sequence[bytes]


class Shuffler:
    """Made anew in each task: holds nothing but compiled filters."""

    def __init__(self, query: Query, source: int) -> None:
        self._query, self._source = query, source
        self._event_time = query.sources[source].event_time
        made_of_it = [n for n, relation in enumerate(query.relations) if relation.source == source]
        filters = [relation_filter(query, n) for n in made_of_it]
        # One relation without a filter takes every record.
        self._filters: tuple[Predicate, ...] = tuple(f for f in filters if f) if all(filters) else ()

    def pack(
        self,
        partition: int,
        predecessor: int,
        offsets: NDArray[np.int64],
        times: NDArray[np.int64],
        columns: Sequence[Vector],
        dead: Sequence[DeadRecord] = (),
        arrivals: Arrivals | None = None,
    ) -> SourceBlock:
        """`offsets`, `times` and `columns` (the used fields, see query/used.py) are of the readable records, in order;
        `dead` has the others, in order too. `arrivals`: None for files."""
        ahead = None if arrivals is None else times > arrivals.times + self._event_time.future_skew_max_us
        if arrivals is not None and ahead is not None and ahead.any():
            dead = sorted([*dead, *self._ahead(partition, offsets, times, arrivals, ahead)], key=lambda d: d.offset)
            rows = np.flatnonzero(~ahead)
            offsets, times, columns = offsets[rows], times[rows], [column.take(rows) for column in columns]
        passed: Mask | None = None
        failed = np.zeros(len(offsets), np.bool_)
        if self._filters:
            passed = np.zeros(len(offsets), np.bool_)
            for predicate in self._filters:
                true, failures = predicate.masks(columns, len(offsets))
                passed |= true
                if failures is not None:
                    failed |= failures
        marks = np.zeros(len(offsets), np.int8)
        kept = tuple(columns)
        if passed is not None and not passed.all():
            marks[~passed] = Mark.FILTERED.value
            marks[~passed & failed] = Mark.FAILED.value
            rows = np.flatnonzero(passed)
            kept = tuple(column.take(rows) for column in columns)
        if dead:
            dead_offsets = np.array([record.offset for record in dead], np.int64)
            order = np.argsort(np.concatenate([offsets, dead_offsets]), kind="stable")
            offsets = np.concatenate([offsets, dead_offsets])[order]
            marks = np.concatenate([marks, np.full(len(dead), Mark.DEAD.value, np.int8)])[order]
            times = np.concatenate([times, np.zeros(len(dead), np.int64)])[order]
        return SourceBlock(self._source, partition, predecessor, offsets, marks, times, kept, tuple(dead))

    def _ahead(
        self, partition: int, offsets: NDArray[np.int64], times: NDArray[np.int64], arrivals: Arrivals, ahead: Mask
    ) -> Iterator[DeadRecord]:
        source = self._query.sources[self._source]
        column = "" if self._event_time.column is None else f", column {source.fields[self._event_time.column].name}"
        for row in np.flatnonzero(ahead).tolist():
            offset, time, arrived = int(offsets[row]), int(times[row]), int(arrivals.times[row])
            reason = (
                f"its time {timestamp_text(time)} is ahead of its arrival at {timestamp_text(arrived)}"
                f" by more than maxFutureSkew"
            )
            place = place_text(source, partition, offset) + column
            raw, reason = kept_raw(bytes(arrivals.raw[row]), reason)
            yield DeadRecord(offset, raw, place, reason)
