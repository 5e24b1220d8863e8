"""What a run did, in numbers that add up: every row that was read has exactly one fate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from biclique.query.model import Query
from biclique.tiers.dispatcher import ACCEPTED, DEAD, DROPPED, FAILED_EXPRESSION, FAILED_FILTER, FILTERED, LATE


@dataclass(frozen=True, slots=True)
class Facts:
    """A running engine at a moment. `state`: rows and bytes of each unit; `bytes_read`: of each source, taken to the
    end of a file and in all."""

    seconds: float
    rows_in: tuple[int, ...]
    rows_out: int
    bytes_read: tuple[tuple[int, int], ...]
    watermark: int
    state: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class SourceFates:
    """`joined`: stored, and probed the other side; the other fates are what their names say."""

    name: str
    read: int
    joined: int
    filtered: int
    late: int
    dead: int
    dropped: int

    @property
    def adds_up(self) -> bool:
        return self.read == self.joined + self.filtered + self.late + self.dead + self.dropped


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts are of all runs since the beginning, times of this one: `seconds` from the start of reading to the last
    file committed, `start_seconds` before it (Java, and `warm_up_seconds` of Python beside it). `first_dead`: place and
    reason of the first of the records that are set aside in the folder `dead_in`."""

    sources: tuple[SourceFates, ...]
    rows_out: int
    failed_expressions: int
    seconds: float
    start_seconds: float
    warm_up_seconds: float
    rows_this_run: int
    state_rows: int
    state_bytes: int
    watermark: int | None
    dead_in: str = ""
    first_dead: str = ""

    @property
    def dead(self) -> int:
        return sum(source.dead for source in self.sources)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "rows_per_second": self.rows_per_second}

    @property
    def rows_per_second(self) -> float:
        return self.rows_this_run / self.seconds if self.seconds > 0 else 0.0


def failed_on_entry(fates: list[Mapping[str, tuple[int, ...]]]) -> int:
    """Rows whose WHERE failed (they are among the filtered ones), and tuples of which a key did."""
    return sum(sum(counts.get(fate, ())) for counts in fates for fate in (FAILED_FILTER, FAILED_EXPRESSION))


def fates_of(
    query: Query, read: tuple[int, ...], fates: list[Mapping[str, tuple[int, ...]]]
) -> tuple[SourceFates, ...]:
    """`fates`: of each dispatcher, by fate and source."""

    def total(fate: str, source: int) -> int:
        return sum(counts[fate][source] for counts in fates if fate in counts)

    found = tuple(
        SourceFates(
            source.name,
            read[number],
            *(total(fate, number) for fate in (ACCEPTED, FILTERED, LATE, DEAD, DROPPED)),
        )
        for number, source in enumerate(query.sources)
    )
    for source in found:
        assert source.adds_up, f"rows of {source.name} are unaccounted for: {source}"
    return found


def as_text(summary: Summary) -> str:
    rows: list[tuple[str, ...]] = [("", "read", "joined", "filtered", "late", "dead", "dropped")]
    for s in summary.sources:
        rows.append((s.name, *(f"{n:,}" for n in (s.read, s.joined, s.filtered, s.late, s.dead, s.dropped))))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    lines.append(f"{summary.rows_out:,} rows written")
    if summary.failed_expressions:
        lines.append(f"{summary.failed_expressions:,} expressions failed (division by zero, overflow)")
    if summary.dead:
        first = f", first: {summary.first_dead}" if summary.first_dead else ""
        lines.append(f"dead: {summary.dead:,}, in {summary.dead_in}{first}")
    rate = f", {summary.rows_per_second:,.0f} rows a second" if summary.rows_this_run else ""
    seconds = f"{summary.seconds:.2f} s from the start of reading to the last file"
    lines.append(f"{seconds}{rate} (start: {summary.start_seconds:.1f} s)")
    return "\n".join(lines)
