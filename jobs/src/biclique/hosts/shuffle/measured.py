"""What the shuffler's driver tells of its batches: it hears of each of them anyway, for its heartbeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from biclique.hosts.shuffle.heartbeats import Heartbeats
from biclique.plan.model import Plan
from biclique.ports.metrics import PARTITION, SOURCE
from biclique.ports.telemetry import Point, Telemetry
from biclique.tiers.messages import Heartbeat
from biclique.tiers.progress import SourcePartition


class MeasuredHeartbeats(Heartbeats):
    def __init__(
        self,
        attempt: int,
        last: Mapping[SourcePartition, int],
        sources: Mapping[int, int],
        telemetry: Telemetry,
        plan: Plan,
    ) -> None:
        super().__init__(attempt, last, sources)
        self._telemetry, self._names = telemetry, [source.name for source in plan.query.sources]
        telemetry.show(self._points)

    def begin(self, last: Mapping[SourcePartition, int], sources: Mapping[int, int]) -> None:
        super().begin(last, sources)
        self._told = -1
        self._behind: dict[SourcePartition, int] = {}

    def batch_ended(self, report: Mapping[str, Any]) -> bool:
        if int(report["batchId"]) > self._told and int(report["numInputRows"]):
            self._told = int(report["batchId"])
            self._telemetry.count("biclique.source.records", int(report["numInputRows"]))
            self._telemetry.record("biclique.batch.duration", int(report["durationMs"]["triggerExecution"]) / 1000)
        return super().batch_ended(report)

    def beats(self, ends: Mapping[SourcePartition, int], now_ms: int) -> list[Heartbeat]:
        self._behind = {
            key: max(0, ends[key] - read_to) for key, read_to in self._read_to.items() if key in ends
        }  # made anew, as an exporter's thread may be looking
        return super().beats(ends, now_ms)

    def _points(self) -> Iterator[Point]:
        for key, behind in self._behind.items():
            yield Point("biclique.source.lag", behind, {SOURCE: self._names[key.source], PARTITION: key.partition})
