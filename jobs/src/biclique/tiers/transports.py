"""How a dispatcher sends the tuples of each relation now: whole, or keys first (plan/transport.py).

A plan may leave it to what is measured: units tell how many of the rows that they handled were wanted, and in how many
blocks of shuffled (`Demand`), and the dispatcher sees how wide tuples and blocks are. The semijoin paper's comparison
(2) < (1), for one row sent to one unit and without latency, is then: what the keys leave behind is more than what is
read again for it. A tenth either way changes nothing, lest it swing.

Blocks say how they travelled, so a change holds from the next turn on, for this dispatcher alone; no result depends on
it, and a restart begins anew with the planner's guess.
"""

from __future__ import annotations

from collections.abc import Iterable

from biclique.plan.model import BESIDE_KEYS, Plan, Transport
from biclique.plan.statistics import default_statistics
from biclique.plan.transport import begins_whole
from biclique.query.used import used_fields
from biclique.tiers.messages import Demand, Producer, SourceBlock

BESIDE_BYTES = sum(kind.bits // 8 for kind in BESIDE_KEYS)
CHANGE = 1.1  # so many times cheaper must the other way be
ROWS_REMEMBERED = 1 << 16


class _Measured:
    """One relation."""

    def __init__(self, plan: Plan, relation: int) -> None:
        stage, number = plan.entry(relation)
        side = plan.stages[stage].sides[number]
        self.source = plan.query.relations[relation].source
        fields = used_fields(plan.query, self.source)
        self._payload = tuple(fields.index(side.columns[at].field) for at in side.payload)
        self._rows = self._blocks = self._bytes = self._left_bytes = 0.0
        self._demands: dict[Producer, Demand] = {}

    def note(self, block: SourceBlock) -> None:
        if self._rows > ROWS_REMEMBERED:
            self._rows, self._blocks = self._rows / 2, self._blocks / 2
            self._bytes, self._left_bytes = self._bytes / 2, self._left_bytes / 2
        self._rows, self._blocks = self._rows + len(block.columns[0]), self._blocks + 1
        self._bytes += block.nbytes
        self._left_bytes += sum(block.columns[at].nbytes for at in self._payload)

    def hear(self, demand: Demand) -> None:
        self._demands[demand.sender] = demand

    def whole(self, so_far: bool) -> bool:
        handled = sum(demand.handled for demand in self._demands.values())
        if not handled or not self._rows:
            return so_far
        saved = self._left_bytes / self._rows - BESIDE_BYTES
        fetched = sum(demand.blocks for demand in self._demands.values()) / handled * self._bytes / self._blocks
        return fetched * CHANGE > saved if so_far else fetched > saved * CHANGE


class Transports:
    def __init__(self, plan: Plan) -> None:
        assumed = default_statistics(plan.query)
        self._whole = {r: begins_whole(plan, *plan.entry(r), assumed) for r in range(len(plan.query.relations))}
        self._measured = {r: _Measured(plan, r) for r in self._whole if _transport(plan, r) is Transport.MEASURED}

    def note(self, block: SourceBlock) -> None:
        for measured in self._measured.values():
            if measured.source == block.source:
                measured.note(block)

    def hear(self, demands: Iterable[Demand]) -> None:
        for demand in demands:
            if demand.relation in self._measured:
                self._measured[demand.relation].hear(demand)

    def decide(self) -> None:
        """Once a turn: a turn sends a relation in one way."""
        for relation, measured in self._measured.items():
            self._whole[relation] = measured.whole(self._whole[relation])

    def whole(self, relation: int) -> bool:
        return self._whole[relation]


def _transport(plan: Plan, relation: int) -> Transport:
    stage, side = plan.entry(relation)
    return plan.stages[stage].sides[side].transport
