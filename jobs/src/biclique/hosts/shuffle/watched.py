"""What the shuffler's driver shows of each source as it stands: how far it is behind, and how fast it is read. It hears
of each batch anyway, for its heartbeats."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

from biclique.hosts.shuffle.bursts import counted_in
from biclique.hosts.shuffle.heartbeats import Heartbeats
from biclique.plan.model import Plan
from biclique.ports.reports import Figures, Report
from biclique.tiers.messages import Heartbeat
from biclique.tiers.progress import SourcePartition

WINDOW_S = 10.0  # over which a rate is taken


class WatchedHeartbeats(Heartbeats):
    """`clock`: seconds, never back."""

    def __init__(
        self,
        attempt: int,
        last: Mapping[SourcePartition, int],
        readers: Sequence[Mapping[str, int]],
        plan: Plan,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._starts: dict[SourcePartition, int] = {}  # of all partitions, also of those that no query reads
        self.behind: dict[SourcePartition, int] = {}
        self._clock, self._began = clock, clock()
        self._records: deque[tuple[float, dict[int, int]]] = deque()  # by source, of each batch lately
        super().__init__(attempt, last, readers)
        self.names = [source.name for source in plan.query.sources]

    def begin(self, last: Mapping[SourcePartition, int], readers: Sequence[Mapping[str, int]]) -> None:
        super().begin(last, readers)
        self._told = -1

    def unread(
        self,
        starts: Mapping[SourcePartition, int],
        ends: Mapping[SourcePartition, int],
        paused: Set[SourcePartition],
        now_ms: int,
        undecided: Set[SourcePartition] = frozenset(),
    ) -> list[Heartbeat]:
        found = super().unread(starts, ends, paused, now_ms, undecided)
        self._starts = {key: max(start, self._read_to.get(key, 0)) for key, start in starts.items()}
        self._look(ends)
        return found

    def waits(self, ends: Callable[[Iterable[SourcePartition]], Mapping[SourcePartition, int]]) -> None:
        self._starts |= self._read_to
        self._look(ends(self._starts))

    @property
    def partitions(self) -> tuple[SourcePartition, ...]:
        """Of those, too, that are not read: a backlog is looked at most while it grows."""
        return tuple({**self._starts, **self._read_to})

    def _look(self, ends: Mapping[SourcePartition, int]) -> None:
        """Made anew, as another thread may be looking."""
        places = {**self._starts, **self._read_to}
        self.behind = {key: max(0, ends[key] - place) for key, place in places.items() if key in ends}

    def batch_ended(self, report: Mapping[str, Any]) -> bool:
        if int(report["batchId"]) > self._told and int(report["numInputRows"]):
            self._told = int(report["batchId"])
            self._batch_of(report)
        return super().batch_ended(report)

    def _batch_of(self, report: Mapping[str, Any]) -> None:
        """Each batch once, and only those that had something."""
        records = {number: counted_in(report, number).records for number in range(len(self.names))}
        self._records.append((self._clock(), records))
        self._forget()

    def _forget(self) -> None:
        while self._records and self._records[0][0] <= self._clock() - WINDOW_S:
            self._records.popleft()

    def beats(
        self, ends: Mapping[SourcePartition, int], now_ms: int, undecided: Set[SourcePartition] = frozenset()
    ) -> list[Heartbeat]:
        self._look(ends)
        return super().beats(ends, now_ms, undecided)

    def reports(self) -> dict[str, Report]:
        """By the source's name. In the driver's own thread."""
        self._forget()
        seconds = min(WINDOW_S, max(1.0, self._clock() - self._began))
        return {name: Report(None, 0.0, self._figures(number, seconds)) for number, name in enumerate(self.names)}

    def _figures(self, number: int, seconds: float) -> Figures:
        read = sum(records.get(number, 0) for _, records in self._records)
        behind = [lag for key, lag in self.behind.items() if key.source == number]
        return Figures(rate_rows_s=round(read / seconds, 1), lag_rows=sum(behind) if behind else None)
