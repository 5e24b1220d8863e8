"""Who reads what a loop sends, and how far all of them have come."""

from __future__ import annotations

from collections.abc import Iterable

from biclique.plan.model import Plan
from biclique.routing.table import RoutingTable
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Producer
from biclique.tiers.progress import JoinerProgress, MergerProgress, Progress


def receivers(plan: Plan, table: RoutingTable, sender: Producer) -> tuple[Producer, ...]:
    """Without the sources of moves: they stand at their switch-over point until they leave, and handle nothing more."""
    moved = {move.source for move in table.moves}
    match sender.tier:
        case "dispatcher":
            return tuple(joiner_producer(unit) for unit in table.units() if unit not in moved)
        case "joiner":
            stage = int(sender.name[: next(n for n, sign in enumerate(sender.name) if not sign.isdigit())])
            if stage == len(plan.stages) - 1:
                return tuple(merger_producer(number) for number in range(plan.mergers))
            return tuple(joiner_producer(unit) for unit in table.units_of_stage(stage + 1) if unit not in moved)
        case _:
            return ()


def reached(progress: Iterable[Progress | None]) -> int | None:
    """The least frontier; None: nothing is known of anybody. Of whom alone nothing is known says nothing, and neither
    does one that joins a running query, before its first step: that needs the word of all its senders on the version in
    which it joins, and a sender that waited for it might never give its own."""
    known = (p for p in progress if isinstance(p, JoinerProgress | MergerProgress))
    return min((p.frontier for p in known if not _joins(p)), default=None)


def _joins(progress: JoinerProgress | MergerProgress) -> bool:
    return isinstance(progress, JoinerProgress) and progress.frontier < 0 < progress.version
