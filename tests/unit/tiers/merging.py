"""A merger on a bench: the senders that it waits for, and what it writes, in order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from biclique.core.codec import checksum
from biclique.core.rows import Vector
from biclique.kernels.lanes import dtype_of
from biclique.kernels.partials import shares_of
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import STRING
from biclique.tiers.aggregation import key_types
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.merger import WRITTEN_MAX, Merger, MergerTurn, WrittenMax
from biclique.tiers.messages import Partials, Results
from biclique.tiers.progress import BlobRef, Manifest, MergerProgress
from biclique.tiers.waiting import SHARES_MAX
from tests.unit.tiers.building import plan, signal

COUNTS = "SELECT r.k AS k, COUNT(*) AS n, SUM(s.v) AS total FROM r JOIN s ON r.k = s.k GROUP BY r.k"
TUMBLE = "SELECT r.k AS k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k, TUMBLE(10 MILLISECONDS)"
ALL = "SELECT COUNT(*) AS n, SUM(s.v) AS total FROM r JOIN s ON r.k = s.k"
DISTINCT = "SELECT DISTINCT r.k AS k FROM r JOIN s ON r.k = s.k WITHIN 10 MILLISECONDS"
EVER = "SELECT DISTINCT r.k AS k FROM r JOIN s ON r.k = s.k"
MS = 1000


class Bench:
    """A merger and the senders it waits for; what it writes is kept in order."""

    def __init__(
        self, sql: str, hold: bool = False, written_max: WrittenMax = WRITTEN_MAX, shares_max: int = SHARES_MAX
    ) -> None:
        self.shares_max, self.read_again = shares_max, 0
        self.written_max, self.rows_max = written_max, 0
        self.plan: Plan = plan(sql)
        self.table = first_table(self.plan)
        self.senders = [joiner_producer(unit) for unit in self.table.units()]
        self.hold = hold
        self.merger = Merger(
            self.plan, 0, MergerProgress(senders=self.table.units()), None, hold, written_max, shares_max
        )
        self.log: list[object] = []
        self.written: list[tuple[object, ...]] = []
        self.blobs: dict[str, bytes] = {}
        self.published: Manifest | None = None  # what a merger that dies in `run` is restored from
        self._serial = 0

    def share(self, epoch: int, keys: Sequence[int], times: Sequence[int], sender: int = 0) -> None:
        """One match for each key."""
        values = tuple(i.value for i in self.plan.query.items if isinstance(i.value, Aggregate | GroupKey))
        columns = [Vector(np.array(keys, np.int32))] if self.plan.query.group_by or not values else []
        newest = np.array(times, np.int64)
        if self.plan.query.tumble_us is not None:
            columns.append(Vector(newest - newest % (10 * MS)))
        elif self.plan.query.distinct and self.plan.query.relations[0].window.time_us is not None:
            columns.append(Vector(newest))
        arguments = [
            Vector(np.array(keys, np.int64)) if isinstance(v, Aggregate) and v.argument is not None else None
            for v in values
        ]
        made = shares_of(values, columns, arguments, newest)
        self._append(Partials(self.senders[sender], epoch, made.keys, made.states, made.newest))

    def share_texts(self, epoch: int, names: Sequence[str], times: Sequence[int]) -> None:
        """One match for each name, which is key and argument of whatever is a text; numbers are 0."""
        values = tuple(i.value for i in self.plan.query.items if isinstance(i.value, Aggregate | GroupKey))
        newest, texts = np.array(times, np.int64), Vector(pa.array(list(names), pa.string()))
        columns = [
            texts if type_ == STRING else Vector(np.zeros(len(names), dtype_of(type_)))
            for type_ in key_types(self.plan.query)
        ]
        if self.plan.query.tumble_us is not None:
            columns[-1] = Vector(newest - newest % (10 * MS))
        elif len(columns) > 1:
            columns[-1] = Vector(newest)
        arguments = [texts if isinstance(v, Aggregate) and v.argument is not None else None for v in values]
        made = shares_of(values, columns, arguments, newest)
        self._append(Partials(self.senders[0], epoch, made.keys, made.states, made.newest))

    def signal_all(self, epoch: int, watermark: int) -> None:
        for sender in self.senders:
            self._append(signal(sender, epoch, watermark))

    def _append(self, record: object) -> None:
        self.log.append(record)

    def read(self, most: int = 1 << 30) -> None:
        start = self.merger.next_offset
        for offset in range(start, min(start + most, len(self.log))):
            self.merger.take(offset, self.log[offset])  # type: ignore[arg-type]
            self.merger.read_to(offset + 1)

    def run(self, crash: Callable[[], bool] = lambda: False, most: Callable[[], int] = lambda: 1 << 30) -> None:
        """`crash`: whether the merger dies after a commit. `most`: records of one read."""
        while True:
            self.read(most())
            frontier = self.merger.reach(self.table)
            if frontier is None:
                if self.merger.next_offset == len(self.log):
                    return
                continue
            for offset in self.merger.missing(frontier):
                self.read_again += 1
                self.merger.restore(offset, self.log[offset])  # type: ignore[arg-type]
            for turn in self.merger.step(frontier):
                self._keep(turn)
                if crash():
                    self._restore(self.published)
                    break

    def finish(self) -> None:
        for turn in self.merger.finish():
            self._keep(turn)

    def _keep(self, turn: MergerTurn) -> None:
        for _, record in turn.sends:
            assert isinstance(record, Results)
            self.rows_max = max(self.rows_max, len(record.times))
            self.written += list(zip(*(column.values.tolist() for column in record.columns), strict=True))
        self.merger.committed(turn)

    def publish(self) -> Manifest:
        self.seal()
        self.published = self.merger.manifest(1)
        return self.published

    def restart(self, from_manifest: bool) -> None:
        self._restore(self.publish() if from_manifest else None)

    def _restore(self, manifest: Manifest | None) -> None:
        self.merger = Merger(self.plan, 0, self.merger.progress, manifest, self.hold, self.written_max, self.shares_max)
        for ref in manifest.blobs if manifest else ():
            assert ref.checksum == checksum(self.blobs[ref.name])
            self.merger.load(ref, self.blobs[ref.name])

    def seal(self, most: int = 1 << 30) -> list[tuple[BlobRef, bytes]]:
        """The blobs that were put: so many at most, and then it is left."""
        self._serial += 1
        put = list(islice(self.merger.seal(1, self._serial), most))
        self.blobs |= {ref.name: data for ref, data in put}
        return put
