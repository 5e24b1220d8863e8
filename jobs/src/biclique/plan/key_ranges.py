"""From a stage's bounds to the key ranges of one stored side: a lower and an upper bound over the same stored
expression, or over ones that differ by a literal, make one range. What is left over of several
(`a.x < b.y AND a.x < b.z`) makes ranges of its own, over the same key. `uses` says which bounds a range expresses.

A shift is left to the index only where it widens (a range that reaches beyond 64 bits just ends there). Where it
narrows, it is put into the probe's expression: there an overflow means that no stored value can qualify, and a failed
bound says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from biclique.plan.constant import INT64_MAX
from biclique.plan.draft import Bound, StageDraft
from biclique.plan.model import KeyRange
from biclique.plan.shift import Peeled, peeled, round_trip, unwidened, widened
from biclique.query.expression import Expression
from biclique.query.types import Kind


class Width(Enum):
    BAND = "band"  # both ends, a literal apart
    RANGE = "range"  # both ends
    OPEN = "one end"


@dataclass(frozen=True, slots=True)
class Candidate:
    range: KeyRange
    uses: frozenset[int]  # positions in the stage's bounds
    width: Width
    loose: bool = False  # rounding was moved across a comparison: what it uses is not expressed exactly


@dataclass(frozen=True, slots=True)
class _End:
    bound: int
    stored: Peeled
    original: Expression
    probe: Expression
    shift: int | float  # stored base <= probe + shift, or >= for a lower end
    strict: bool
    is_upper: bool


def candidates(stage: StageDraft, stored: int) -> tuple[Candidate, ...]:
    """Narrowest first, otherwise in the order of the conjuncts."""
    groups: dict[Expression, list[_End]] = {}
    for number, bound in enumerate(stage.bounds):
        end = _end(number, bound, stored)
        groups.setdefault(end.stored.base, []).append(end)
    found: list[Candidate] = []
    for ends in groups.values():
        while ends:
            found.append(_candidate(ends))
            ends = [end for end in ends if end.bound not in found[-1].uses]
    order = list(Width)
    return tuple(sorted(found, key=lambda c: order.index(c.width)))


def _end(number: int, bound: Bound, stored: int) -> _End:
    is_upper = bound.small_side == stored
    original, probe = (bound.small, bound.large) if is_upper else (bound.large, bound.small)
    shift = bound.shift if is_upper else -bound.shift
    base = peeled(original)
    mixed = isinstance(shift, float) and isinstance(base.total, float) and shift != 0
    if mixed or (isinstance(shift, int) and isinstance(base.total, int) and abs(shift - base.total) >= INT64_MAX):
        return _End(number, Peeled(widened(original)), original, probe, shift, bound.strict, is_upper)
    return _End(number, base, original, probe, shift - base.total, bound.strict, is_upper)


def _candidate(ends: list[_End]) -> Candidate:
    lows, highs = [e for e in ends if not e.is_upper], [e for e in ends if e.is_upper]
    pairs = [(low, high) for low in lows for high in highs]
    if not pairs:
        end = ends[0]
        found = _range(None, end) if end.is_upper else _range(end, None)
        return Candidate(found, frozenset({end.bound}), Width.OPEN)
    bands = [p for p in pairs if peeled(p[0].probe).base == peeled(p[1].probe).base]
    low, high = (bands or pairs)[0]
    loose = _apart([low, high]) and _rounds([low, high])
    uses = frozenset({low.bound, high.bound})
    return Candidate(_range(low, high), uses, Width.BAND if bands else Width.RANGE, loose)


def _range(low: _End | None, high: _End | None) -> KeyRange:
    ends = [end for end in (low, high) if end is not None]
    stored, add_back = ends[0].original, ends[0].stored.total
    if _apart(ends):
        stepped = tuple(dict.fromkeys(end.stored for end in ends if end.stored.steps))
        stored, add_back = ends[0].stored.base if _rounds(ends) else round_trip(stepped), 0
    low_bound, low_shift = (None, 0) if low is None else (unwidened(low.probe), low.shift + add_back)
    high_bound, high_shift = (None, 0) if high is None else (unwidened(high.probe), high.shift + add_back)
    return KeyRange(
        unwidened(stored),
        low_bound,
        low is not None and low.strict,
        low_shift,
        high_bound,
        high is not None and high.strict,
        high_shift,
    )


def _apart(ends: list[_End]) -> bool:
    return len({end.original for end in ends}) > 1


def _rounds(ends: list[_End]) -> bool:
    return ends[0].original.type.kind is Kind.DOUBLE
