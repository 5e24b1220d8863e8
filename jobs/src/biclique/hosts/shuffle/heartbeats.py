"""What the shuffler's driver knows of each source partition, and the heartbeats that follow from it.

A heartbeat says: when this partition had been read to its end, the last record in it was at this place. It is sent into
the same partition of shuffled as the records, behind them: a batch is reported when its messages are in Kafka. That a
partition is idle follows from two heartbeats of one driver (tiers/dispatcher.py); a beat too few costs time, one too
many could make a tuple late, so none is sent on a guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from biclique.tiers.messages import Heartbeat
from biclique.tiers.progress import SourcePartition

OBSERVED = "packed"


def last_name(key: SourcePartition) -> str:
    """Of what is observed of each batch: the place of the last record of a source partition. A batch's end may lie
    beyond it, behind control records, which no dispatcher ever sees."""
    return f"last_{key.source}_{key.partition}"


class Heartbeats:
    """`last`: the place of the last record that dispatchers had taken of each partition when this query began; absent:
    none. `sources`: of each of the streaming query's sources, by its position, which of ours it is."""

    def __init__(self, attempt: int, last: Mapping[SourcePartition, int], sources: Mapping[int, int]) -> None:
        self._attempt = attempt
        self.begin(last, sources)

    def begin(self, last: Mapping[SourcePartition, int], sources: Mapping[int, int]) -> None:
        """Another streaming query takes the place of the one before."""
        self._last, self._sources = dict(last), sources
        self._read_to: dict[SourcePartition, int] = {}
        self.batch = -1  # the newest that was reported

    def batch_ended(self, report: Mapping[str, Any]) -> bool:
        """`report`: of a batch, as the query's progress has it; told again, it changes nothing. False: reports between
        the last one and this were missed, and what they observed with them; see `caught_up_with`."""
        for position, described in enumerate(report["sources"]):
            end = described["endOffset"]
            for partitions in ((json.loads(end) if isinstance(end, str) else end) or {}).values():
                for number, offset in partitions.items():
                    key = SourcePartition(self._sources[position], int(number))
                    self._read_to[key] = max(self._read_to.get(key, 0), int(offset))
        observed = report.get("observedMetrics", {}).get(OBSERVED, {})
        for key in self._read_to:
            place = observed.get(last_name(key))
            if place is not None:
                self._last[key] = max(self._last.get(key, -1), int(place))
        before, self.batch = self.batch, max(self.batch, int(report["batchId"]))
        return self.batch <= before + 1

    def caught_up_with(self, last: Mapping[SourcePartition, int]) -> None:
        """What dispatchers have taken has been sent, whoever reported it."""
        for key, place in last.items():
            self._last[key] = max(self._last.get(key, -1), place)

    @property
    def partitions(self) -> tuple[SourcePartition, ...]:
        """Of which it is known how far they have been read."""
        return tuple(self._read_to)

    def beats(self, ends: Mapping[SourcePartition, int], now_ms: int) -> list[Heartbeat]:
        """`ends`: of the source partitions, in messages, looked up after `now_ms` was read: what came after it is not
        what these beats are about."""
        return [
            Heartbeat(*key, self._last.get(key, -1), now_ms, self._attempt)
            for key, read_to in self._read_to.items()
            if key in ends and ends[key] <= read_to
        ]
