"""What happened in many runs, counted by kind: what no run came across, no run has tested.

`make test` asks of its seeds that every kind of `KINDS` happened. A kind that becomes rare is seen in the table before
it is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from biclique.tiers.dispatcher import FATES
from biclique.tiers.progress import DispatcherProgress, Progress
from tests.simulation import observer
from tests.simulation.faulty_store import AWAY, FULL
from tests.simulation.marks import MARKS
from tests.simulation.points import PAIRS, TWICE, WHERE, Fault, Point, pair

SEEDS_ENOUGH = 2500  # so many runs must have come across everything

FAULTS = (
    "shuffler",
    "zombie task",
    "lost send of the shuffler",
    "early heartbeat",
    "clock",
    "skew",
    "dispatcher",
    "joiner",
    "merger",
    "zombie",
    "pause",
    "deaf",
    "stale table",
    "stepping in",
    "late reader",
    "lost send",
    "lost request",
    "lost acknowledgement",
    "slow markers",
    "time-out",
    "store rolls back",
    "store loses",
    "store damages",
)
ENDS = ("fenced", "left", "unknown outcome")
A_START = "a start crashes"
SCALINGS = (
    "join",
    "leave by window",
    "leave by move",
    "a move of moved tuples",
    "a unit comes back",
    "a start crashes",
)
OPEN = "an open transaction"
CRASHES = {
    "dispatcher": ("Commit", OPEN, "Consult", "Read", "ReadClock", "ReadProgress", "ReadTable", "Rest"),
    "joiner": (
        *("Commit", OPEN, "Consult", "GetBlob", "LoadManifests", "PublishManifest", "PutBlob"),
        *("Read", "ReadProgress", "ReadTable", "Rest"),
    ),
    "merger": (
        *("Commit", OPEN, "Consult", "GetBlob", "LoadManifests", "PublishManifest", "PutBlob"),
        *("Read", "ReadProgress", "ReadTable", "Rest"),
    ),
}
ABORTED, TRIMMED, TRIMMED_PAYLOAD, TOGETHER, OVERFLOW = (
    "a transaction is aborted",
    "a log is trimmed",
    "shuffled is trimmed",
    "dispatchers crash together",
    "a SUM overflows",
)
OBSERVED = (
    *("a commit is committed", "a commit is fenced", "a commit is unknown"),
    *(observer.CURSOR, observer.MOVED_BY_MANIFEST, observer.MOVED_BY_LOG, observer.SEALED, observer.IDLE),
    *(
        observer.REPLAY,
        observer.RESTORED,
        observer.FROM_NOTHING,
        observer.READ_AGAIN,
        observer.BLOB_GONE,
        observer.HALF,
        observer.LOST,
        observer.SKIPPED,
        observer.FETCHED,
        observer.SLICED,
    ),
)


def crash_at(tier: str, point: str) -> str:
    return f"{tier} crashes at {point}"


KINDS = (
    *(f"fault: {fault}" for fault in FAULTS),
    *(crash_at(tier, point) for tier, points in CRASHES.items() for point in points),
    *(f"a loop ends: {end}" for end in ENDS),
    *OBSERVED,
    *SCALINGS,
    *(AWAY, FULL, *MARKS),
    *(ABORTED, TRIMMED, TRIMMED_PAYLOAD, TOGETHER, OVERFLOW),
    *(f"records {fate}" for fate in FATES),
    *PAIRS,
)


def unseen(counts: Mapping[str, int]) -> list[str]:
    return [kind for kind in KINDS if not counts.get(kind)]


def total(counted: list[Mapping[str, int]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for counts in counted:
        found.update(counts)
    return found


def fates(committed: Iterable[Progress]) -> Counter[str]:
    """How many records came to what, as the dispatchers have counted them."""
    found: Counter[str] = Counter()
    for progress in committed:
        if isinstance(progress, DispatcherProgress):
            found.update({f"records {fate}": sum(counts) for fate, counts in progress.fates.items()})
    return found


def matrix(counts: Mapping[str, int]) -> str:
    """How often each fault struck at each named point; where it need not: nothing."""
    rows = [["", *(fault.name for fault in Fault)]]
    for point in Point:
        cells = [f"{counts.get(pair(fault, point), 0):,}" if point in WHERE[fault] else "" for fault in Fault]
        rows.append([point.value, *cells])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    names = ", ".join(fault.value for fault in Fault)
    return "\n".join([*lines, f"({names})", f"{TWICE}: {counts.get(TWICE, 0):,}"])


def table(counts: Mapping[str, int], columns: int = 3) -> str:
    """Every kind but those of the matrix, and whatever else was counted, with its number: read down, then across."""
    kinds = [kind for kind in KINDS if kind not in PAIRS]
    kinds += sorted(set(counts) - set(KINDS))
    height = -(-len(kinds) // columns)
    parts = [kinds[at : at + height] for at in range(0, len(kinds), height)]
    widths = [max(map(len, part)) for part in parts]
    lines = []
    for row in range(height):
        cells = [
            f"{part[row]:<{width}} {counts.get(part[row], 0):>8,}"
            for part, width in zip(parts, widths, strict=True)
            if row < len(part)
        ]
        lines.append("  ".join(cells))
    return "\n".join(lines)
