"""What went into a run and what came out of it: all that the auditor needs, and nothing of how the run was made.

Whoever ran the query collects it: the simulator from its fake log, the embedded engine's tests from the log in
memory, later ones from real topics. A log that was trimmed cannot be judged in full: keep it, or leave `logs` of
units out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from biclique.plan.model import Plan
from biclique.query.expression import Scalar
from biclique.query.model import Source
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.messages import Address, Producer, Record
from biclique.tiers.progress import Progress, SourcePartition


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """`values`: of all fields of the source; None: nobody can read it. `born_ms`: when it came, by the run's own
    clock; `arrived_us`: the same as event times count, None where a record may have any time (files). `raw`: its
    bytes, as far as a dead letter must hold them."""

    offset: int
    time: int
    values: tuple[Scalar, ...] | None
    born_ms: int = 0
    raw: bytes = b""
    arrived_us: int | None = None

    def is_dead(self, source: Source) -> bool:
        if self.values is None:
            return True
        return self.arrived_us is not None and self.time - self.arrived_us > source.event_time.future_skew_max_us


@dataclass(frozen=True)
class Evidence:
    """`logs`: what was committed, whole, by partition. `progress`: of every producer, at the end. `dispatcher_of`:
    who took a source partition. `lower`: every unit that ever ran, and the offset at which its life began. `tables`:
    every version; `switch`: S(v) of all of them, as far as known, and `stage_switch` the same by stage. `unfinished`:
    what the run was still waiting for.
    """

    plan: Plan
    sources: Mapping[SourcePartition, Sequence[SourceRecord]]
    dispatcher_of: Mapping[SourcePartition, int]
    logs: Mapping[Address, Sequence[tuple[int, Record]]]
    progress: Mapping[Producer, Progress]
    tables: Sequence[RoutingTable]
    lower: Mapping[UnitId, int]
    stage_switch: Mapping[tuple[int, int], int] = field(default_factory=dict)
    unfinished: Sequence[str] = ()
    finished: bool = False  # the input has ended, and mergers were asked to write what they held back
    asleep: frozenset[SourcePartition] = frozenset()  # partitions that send nothing, and may
    added: frozenset[SourcePartition] = frozenset()  # partitions that a source was given while the query ran
    began_ms: int = 0  # by the clock of `SourceRecord.born_ms`


@dataclass(frozen=True, slots=True)
class Violation:
    """`promise`: a word for what was broken; `what`: the tuples, units and numbers."""

    promise: str
    what: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what}"
