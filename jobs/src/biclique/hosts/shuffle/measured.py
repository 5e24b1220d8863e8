"""What the shuffler's driver tells telemetry of its batches and sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from biclique.hosts.shuffle.bursts import counted_in
from biclique.hosts.shuffle.watched import WatchedHeartbeats
from biclique.plan.model import Plan
from biclique.ports.metrics import PARTITION, SOURCE
from biclique.ports.telemetry import Point, Telemetry
from biclique.tiers.progress import SourcePartition


class MeasuredHeartbeats(WatchedHeartbeats):
    def __init__(
        self,
        attempt: int,
        last: Mapping[SourcePartition, int],
        readers: Sequence[Mapping[str, int]],
        telemetry: Telemetry,
        plan: Plan,
    ) -> None:
        super().__init__(attempt, last, readers, plan)
        self._telemetry = telemetry
        telemetry.show(self._points)

    def _batch_of(self, report: Mapping[str, Any]) -> None:
        super()._batch_of(report)
        for number, name in enumerate(self.names):
            if records := counted_in(report, number).records:
                self._telemetry.count("biclique.source.records", records, {SOURCE: name})
        self._telemetry.record("biclique.batch.duration", int(report["durationMs"]["triggerExecution"]) / 1000)

    def _points(self) -> Iterator[Point]:
        for key, behind in self.behind.items():
            yield Point("biclique.source.lag", behind, {SOURCE: self.names[key.source], PARTITION: key.partition})
