"""Whether a source's bad records are a burst: within a minute at least so many, and at least that share of all.

One bad record is set aside. A burst means that a producer, or the manifest, has changed: reading on would set aside
what a person could still have read with a mended schema. So the source pauses. It does not go on by itself, since what
comes next is already written and time does not mend it: a person resumes it, or changes what the manifest says of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biclique.hosts.shuffle.heartbeats import OBSERVED
from biclique.query.model import Source

WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class Counted:
    """Of one batch. `first`: place and reason of a bad record; empty: there is none."""

    records: int
    bad: int
    first: str


def counted_names(source: int) -> tuple[str, str, str]:
    """Under which a batch's counts are observed."""
    return f"records_{source}", f"bad_{source}", f"first_bad_{source}"


def counted_in(report: Mapping[str, Any], source: int) -> Counted:
    observed = report.get("observedMetrics", {}).get(OBSERVED, {})
    records, bad, first = (observed.get(name) for name in counted_names(source))
    return Counted(int(records or 0), int(bad or 0), first or "")


class Bursts:
    """`sources`: of the query. A batch counts once, however often it is reported."""

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources
        self._seen: dict[int, deque[tuple[int, Counted]]] = {number: deque() for number in range(len(sources))}
        self._batch = -1

    def batch_ended(self, report: Mapping[str, Any], now_ms: int) -> dict[int, str]:
        """The sources that have a burst now, and what to say of each."""
        batch = int(report["batchId"])
        if batch <= self._batch or not report["numInputRows"]:
            return {}
        self._batch = batch
        found: dict[int, str] = {}
        for number, source in enumerate(self._sources):
            seen = self._seen[number]
            seen.append((now_ms, counted_in(report, number)))
            while seen[0][0] <= now_ms - WINDOW_MS:
                seen.popleft()
            records, bad = sum(each.records for _, each in seen), sum(each.bad for _, each in seen)
            limit = source.bad_record_burst
            if bad >= limit.count and bad >= limit.share * records:
                first = next(each.first for _, each in seen if each.first)
                found[number] = f"{bad:,} of its last {records:,} records are bad, one of them {first}"
        return found
