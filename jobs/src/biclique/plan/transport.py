"""Whether a relation's tuples travel whole to the units, or keys first and the rest on a match.

The keys are the columns that the predicates of its stage need. The rest, its *payload*, is what a later stage or the
result needs; it waits in `<q>.shuffled`, which Kafka sources have and files do not. Partial results always travel
whole: they are matches, and what is fetched for one may well be wanted by several.

`auto` compares the bytes of both by the semijoin paper's model, which says where to begin. What decides, the share of
tuples that match and how wide texts are, no plan can know: dispatchers go by what has been measured, unless a payload
is of fixed width and so narrow that there is little to save though no tuple matched. That is sent as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from biclique.plan.amounts import number, size
from biclique.plan.estimate import SideEstimate, StageEstimate, estimate
from biclique.plan.load import value_bytes
from biclique.plan.model import BESIDE_KEYS, LEFT, RIGHT, Plan, Reason, Side, Stage, Topic, Transport
from biclique.plan.range_totals import range_totals
from biclique.plan.rules.normalise import normalised
from biclique.plan.rules.place_predicates import cascade
from biclique.plan.semijoin import BLOCK_BYTES, Shipped, keys_first, whole
from biclique.plan.statistics import Statistics
from biclique.query.expression import Expression, columns_of
from biclique.query.model import Kafka, Query
from biclique.query.types import Kind

SAVED_MIN = 0.25  # of a tuple's bytes: less is not worth a place in each row, and the measuring


@dataclass(frozen=True, slots=True)
class Comparison:
    """Bytes a second into all units, and what they come from."""

    shipped: Shipped
    whole_bytes_per_s: float
    keys_bytes_per_s: float


def with_transport(plan: Plan, statistics: Statistics) -> Plan:
    """The last of the planner's rules: it needs the numbers of all others."""
    asked = plan.query.hints.transport
    reasons: list[Reason] = []
    stages: list[Stage] = []
    numbers = estimate(plan, statistics)
    for stage in plan.stages:
        sides: list[Side] = []
        for place in (LEFT, RIGHT):
            side, why = _chosen(plan, stage, place, asked, numbers[stage.number], statistics)
            sides.append(side)
            reasons += [Reason(Topic.TRANSPORT, why, stage.number)] if why else []
        stages.append(replace(stage, sides=(sides[LEFT], sides[RIGHT])))
    return replace(plan, stages=tuple(stages), reasons=(*plan.reasons, *reasons))


def _chosen(
    plan: Plan, stage: Stage, place: int, asked: str, numbers: StageEstimate, statistics: Statistics
) -> tuple[Side, str]:
    side = stage.sides[place]
    payload = payload_of(plan, stage, place)
    if asked == Transport.TUPLES.value or not payload:
        said = asked == Transport.SEMIJOIN.value and len(side.relations) == 1
        return side, f"{_name(side, plan.query)}: tuples, as nothing is left behind" if said else ""
    if asked == Transport.SEMIJOIN.value:
        why = f"{_name(side, plan.query)}: keys first: asked for in spec.plan"
        return replace(side, transport=Transport.SEMIJOIN, payload=payload), why
    found = compared(replace(side, payload=payload), numbers, place, statistics)
    cheaper = found.keys_bytes_per_s < found.whole_bytes_per_s
    may_be_wide = any(side.columns[at].type.kind is Kind.STRING for at in payload)
    saved_at_most = 1 - found.shipped.keys_bytes / found.shipped.whole_bytes
    if not cheaper and not may_be_wide and saved_at_most < SAVED_MIN:
        return side, f"{_name(side, plan.query)}: whole tuples, as {_sizes(found)}"
    begins = "keys first" if cheaper else "whole tuples"
    why = f"{_name(side, plan.query)}: {begins} until more is known, as {_sizes(found)}; then as measured"
    return replace(side, transport=Transport.MEASURED, payload=payload), why


def payload_of(plan: Plan, stage: Stage, place: int) -> tuple[int, ...]:
    """Positions of what may stay behind; none where that is not possible."""
    side, query = stage.sides[place], plan.query
    if len(side.relations) > 1 or not isinstance(query.sources[query.relations[side.relations[0]].source].input, Kafka):
        return ()
    if stage is plan.stages[-1] and any(range_totals(query, stage)):
        return ()  # counts and sums come from what is stored, and no pair is looked at
    needed = {column for conjunct in _conjuncts(plan, stage) for column in columns_of(conjunct)}
    return tuple(at for at, column in enumerate(side.columns) if column not in needed)


def _conjuncts(plan: Plan, stage: Stage) -> tuple[Expression, ...]:
    return cascade(plan.order, normalised(plan.query.predicates))[stage.number].conjuncts


def compared(side: Side, numbers: StageEstimate, place: int, statistics: Statistics) -> Comparison:
    """`side`: with what it may leave behind."""
    own, other = numbers.sides[place], numbers.sides[1 - place]
    payload = sum(value_bytes(side.columns[at].type, statistics) for at in side.payload)
    beside = sum(kind.bits / 8 for kind in BESIDE_KEYS)
    shipped = Shipped(
        own.rate,
        own.rows,
        other.rate,
        other.rows,
        numbers.share,
        own.row_bytes,
        own.row_bytes - payload + beside,
        own.messages_per_tuple,
        _units(own, other),
        max(1.0, BLOCK_BYTES // own.row_bytes),
    )
    return Comparison(shipped, whole(shipped), keys_first(shipped))


def _units(own: SideEstimate, other: SideEstimate) -> float:
    """That a tuple may be sent to, by chance or content: each fetches for itself."""
    return float(own.units + other.units)


def begins_whole(plan: Plan, stage: int, place: int, statistics: Statistics) -> bool:
    """What a dispatcher that has measured nothing yet goes by."""
    side = plan.stages[stage].sides[place]
    if side.transport is not Transport.MEASURED:
        return side.transport is Transport.TUPLES
    found = compared(side, estimate(plan, statistics)[stage], place, statistics)
    return found.whole_bytes_per_s <= found.keys_bytes_per_s


def _name(side: Side, query: Query) -> str:
    return query.relations[side.relations[0]].name


def _sizes(found: Comparison) -> str:
    shipped = found.shipped
    return (
        f"{size(shipped.keys_bytes)} of keys and {size(shipped.whole_bytes)} in all, wanted "
        f"{number(shipped.wanted)} times a tuple, make {size(found.keys_bytes_per_s)}/s, and "
        f"{size(found.whole_bytes_per_s)}/s whole"
    )
