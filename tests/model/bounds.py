"""Work is bounded: what was used, transaction by transaction and unit by unit, against what the run was allowed.

* A dispatcher's transaction files and accepts no more records than one turn reads.
* A joiner's transaction holds no more results than `matches_max`, whatever one tuple matches.
* A merger's transaction writes no more rows than `groups_written`.
* A unit of the first stage holds no more rows that wait than `held_rows`, or those of one epoch where that alone has
  more: less than an epoch cannot be handled.
* A checkpoint is a few manifests of blobs with a bounded number of rows. Beside bounds: none names a blob that was
  gone when it was taken, and when the faults are over every unit comes to one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from biclique.core.stamps import epoch_of
from biclique.routing.protocol import Role
from biclique.routing.table import UnitId
from biclique.tiers.effects import Commit
from biclique.tiers.messages import Block, LateTuples, Results, SetAside
from tests.model.evidence import Evidence, Violation
from tests.model.pieces import Logs

PROMISE = "work is bounded"
CHECKPOINTS = "what a store has lost is sealed again"


@dataclass(frozen=True)
class Limits:
    """`turn_source_records`: what the blocks of one turn can hold."""

    turn_source_records: int
    matches_max: int
    held_rows: int
    groups_written: int
    blob_rows: int
    manifests: int


@dataclass(frozen=True)
class Use:
    """`transactions`: all that were committed. `held`: the most rows that waited in a unit at once. `manifests`: the
    most that the store kept for one owner; `blob_rows`: of the greatest blob that a joiner sealed.
    `checkpoints`: what is wrong with those that were taken, or were not."""

    limits: Limits
    transactions: tuple[Commit, ...] = ()
    held: Mapping[UnitId, int] = field(default_factory=dict)
    manifests: int = 0
    blob_rows: int = 0
    checkpoints: tuple[str, ...] = ()


def bound_violations(evidence: Evidence, logs: Logs, use: Use) -> Iterator[Violation]:
    limits = use.limits
    for transaction in use.transactions:
        match transaction.owner.tier:
            case "dispatcher" if (taken := _taken(transaction)) > limits.turn_source_records:
                what = f"takes {taken} records, and may take {limits.turn_source_records}"
                yield Violation(PROMISE, f"a transaction of {transaction.owner} {what}")
            case "joiner" if (matches := _matches(transaction)) > limits.matches_max:
                what = f"holds {matches} matches, and may hold {limits.matches_max}"
                yield Violation(PROMISE, f"a transaction of {transaction.owner} {what}")
            case "merger" if (written := _written(transaction)) > limits.groups_written:
                what = f"writes {written} rows, and may write {limits.groups_written}"
                yield Violation(PROMISE, f"a transaction of {transaction.owner} {what}")
    for unit, held in use.held.items():
        if unit.subgroup.stage == 0 and held > limits.held_rows:
            of_epoch = Counter(epoch_of(given.piece.stamp) for given in logs.given(unit))
            if held > max(of_epoch.values(), default=0):
                yield Violation(PROMISE, f"{unit} holds {held} rows that wait, and may hold {limits.held_rows}")
    if use.manifests > limits.manifests:
        yield Violation(PROMISE, f"the store keeps {use.manifests} manifests of one owner, not {limits.manifests}")
    if use.blob_rows > limits.blob_rows:
        yield Violation(PROMISE, f"a blob has {use.blob_rows} rows, and may have {limits.blob_rows}")
    for wrong in use.checkpoints:
        yield Violation(CHECKPOINTS, wrong)


def _taken(transaction: Commit) -> int:
    """Source records, each once, whatever relations and units it goes to."""
    found: set[tuple[str, int, int]] = set()
    aside = 0
    for _, record in transaction.sends:
        match record:
            case LateTuples(offsets=offsets):
                aside += len(offsets)
            case SetAside(records=records):
                aside += len(records)
            case Block(role=role, stage=stage, side=side) if role is not Role.PROBE:
                found |= {("stored", stage * 2 + side, identity) for identity in record.rows.ids[0].tolist()}
    by_entry = Counter(entry for _, entry, _ in found)
    return aside + max(by_entry.values(), default=0)


def _written(transaction: Commit) -> int:
    return sum(len(record.times) for _, record in transaction.sends if isinstance(record, Results))


def _matches(transaction: Commit) -> int:
    """Rows of the output, or partial results: those are sent on to one unit at least to store and to some to probe."""
    counts: Counter[object] = Counter()
    for address, record in transaction.sends:
        match record:
            case Results(times=times):
                counts["output"] += len(times)
            case Block(role=role):
                counts[address, role] += len(record.rows)
    return max(counts.values(), default=0)
