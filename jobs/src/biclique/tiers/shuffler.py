"""The shuffler's logic: parsed records of one source in, source blocks out. Stateless; whatever it repeats, a
dispatcher drops.

A record is GOOD if it passes the filters of at least one relation made of its source (a self-join makes two), FILTERED
if it passes none, DEAD if it could not be read. Every record reaches the block as a mark, so that the dispatcher can
account for each exactly once; only GOOD ones bring their columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from biclique.core.rows import Mask, Vector
from biclique.kernels.evaluate import Predicate
from biclique.query.model import Query
from biclique.tiers.entry import relation_filter
from biclique.tiers.messages import DeadRecord, Mark, SourceBlock


class Shuffler:
    """Made anew in each task: holds nothing but compiled filters."""

    def __init__(self, query: Query, source: int) -> None:
        self._source = source
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
    ) -> SourceBlock:
        """`offsets`, `times` and `columns` (the used fields, see query/used.py) are of the readable records, in order;
        `dead` has the others, in order too."""
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
