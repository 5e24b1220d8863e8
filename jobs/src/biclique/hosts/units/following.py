"""How traces go through a unit: what comes in under a trace is followed to what it caused, within one transaction.

A transaction merges much: blocks of many traces, and far more of none. Each followed block keeps a trace of its own,
with a span for the transaction that handled it; spans that shared one link to each other. What a joiner or merger sends
has many causes, so it carries one of them: the first followed block that probed (a stored tuple causes nothing yet).

The logic knows nothing of this. Contexts stand in records (`trace`), and are taken out and put in here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from biclique.core.stamps import epoch_of, parts_of_id
from biclique.plan.model import Plan
from biclique.ports.telemetry import Attributes, Span, Telemetry
from biclique.ports.trace_context import followed
from biclique.routing.protocol import Role
from biclique.tiers.effects import Commit
from biclique.tiers.messages import Address, Block, LateTuples, Partials, Record, Results, SetAside, SourceBlock
from biclique.tiers.phases import Phase
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, MergerProgress

SPANS_MAX = 32  # of one transaction, and links of one span: with every block sampled, more would help nobody
WAITING_MAX = 1024  # followed blocks that wait for the frontier

Wall = Callable[[int], int]  # the wall clock's time of a moment, told by the clock that does not jump


@dataclass(slots=True)
class _Incoming:
    """A followed block, when it was read, and the epoch at which it is handled."""

    record: SourceBlock | Block | Partials
    began: int
    ended: int
    epoch: int = 0

    @property
    def causes(self) -> bool:
        return not isinstance(self.record, Block) or self.record.role is not Role.STORE


@dataclass(slots=True)
class _Open:
    incoming: _Incoming
    span: Span


@dataclass(slots=True)
class Transaction:
    """Spans of what the transactions of one step handle, and their common parts."""

    telemetry: Telemetry
    name: str
    spans: list[_Open] = field(default_factory=list)

    def open(self, incoming: Iterable[_Incoming], wall: Wall) -> None:
        due = list(incoming)[:SPANS_MAX]
        for one in due:
            others = [other.record.trace for other in due if other is not one]
            span = self.telemetry.begin(self.name, wall(one.began), one.record.trace, others, attributes_of(one.record))
            if span is not None:
                span.child("read", wall(one.began), wall(one.ended))
                self.spans.append(_Open(one, span))

    def part(self, name: str, began: int, ended: int, wall: Wall, causing: bool | None = None) -> None:
        """`causing`: of the blocks that cause something, or of those that are stored; None: of all."""
        for one in self.spans:
            if causing is None or _takes_part(one.incoming, causing):
                one.span.child(name, wall(began), wall(ended))

    def end(self, at: int, wall: Wall, failure: str = "") -> None:
        for one in self.spans:
            one.span.end(wall(at), failure=failure)
        self.spans.clear()


def _takes_part(incoming: _Incoming, causing: bool) -> bool:
    """A block of both roles is stored, and probes."""
    if causing or not isinstance(incoming.record, Block):
        return incoming.causes
    return incoming.record.role is not Role.PROBE


def attributes_of(record: SourceBlock | Block | Partials) -> Attributes:
    match record:
        case SourceBlock():
            offsets = record.offsets
            first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (-1, -1)
            return {
                "biclique.source.number": record.source,
                "biclique.partition": record.partition,
                "biclique.offset.first": first,
                "biclique.offset.last": last,
            }
        case Block():
            return {
                "biclique.stage": record.stage,
                "biclique.side": record.side,
                "biclique.role": record.role.value,
                "biclique.epoch": record.epoch,
                "biclique.rows": len(record.rows),
            }
        case Partials():
            return {"biclique.epoch": record.epoch, "biclique.rows": len(record.newest)}


class DispatcherFollowing:
    """What was read waits for its turn: one that is large is several. A block that is sent has the rows of one source
    block, which its first tuple's id names."""

    def __init__(self, telemetry: Telemetry, plan: Plan) -> None:
        self._transaction = Transaction(telemetry, "dispatch")
        self._sources = [relation.source for relation in plan.query.relations]
        self._waiting: dict[int, _Incoming] = {}  # by offset

    def read(self, records: Iterable[tuple[int, Record]], began: int, ended: int, handled_to: int) -> None:
        for offset, record in records:
            if isinstance(record, SourceBlock) and record.trace and followed(record.trace):
                self._waiting[offset] = _Incoming(record, began, ended)

    def phase(self, phase: Phase, began: int, ended: int, wall: Wall) -> None:
        raise AssertionError("a dispatcher has no phases")

    def sending(self, commit: Commit, since: int, now: int, wall: Wall) -> Commit:
        assert isinstance(commit.progress, DispatcherProgress)
        due = [offset for offset in self._waiting if offset < commit.progress.offset]
        if not due:
            return commit
        self._transaction.open(map(self._waiting.pop, due), wall)
        self._transaction.part("route", since, now, wall)
        return replace(commit, sends=tuple((address, self._marked(record)) for address, record in commit.sends))

    def _marked(self, record: Record) -> Record:
        match record:
            case Block():
                relation, partition, offset = parts_of_id(int(record.rows.ids[0][0]))
                trace = self._trace_of(self._sources[relation], partition, offset)
            case LateTuples():
                trace = self._trace_of(record.source, record.partition, int(record.offsets[0]))
            case SetAside():
                trace = self._trace_of(record.source, record.partition, record.records[0].offset)
            case _:
                return record
        return replace(record, trace=trace) if trace else record

    def _trace_of(self, source: int, partition: int, offset: int) -> str:
        for one in self._transaction.spans:
            block = one.incoming.record
            assert isinstance(block, SourceBlock)
            if (block.source, block.partition) == (source, partition) and (
                block.offsets[0] <= offset <= block.offsets[-1]
            ):
                return one.span.context
        return ""

    def sent(self, commit: Commit, began: int, ended: int, wall: Wall, failure: str) -> None:
        self._transaction.part("commit", began, ended, wall)
        self._transaction.end(ended, wall, failure)

    def end(self, at: int, wall: Wall, failure: str) -> None:
        """Of a transaction that nothing more is heard of."""
        self._transaction.end(at, wall, failure)


class StepFollowing:
    """Of a joiner or merger: what is read waits for the frontier. A step may take several transactions; its spans end
    with the last."""

    def __init__(self, telemetry: Telemetry, name: str) -> None:
        self._transaction = Transaction(telemetry, name)
        self._waiting: dict[int, _Incoming] = {}  # by offset: a block may be read again
        self._phases: list[tuple[Phase, int, int]] = []

    def read(self, records: Iterable[tuple[int, Record]], began: int, ended: int, handled_to: int) -> None:
        """`handled_to`: the committed frontier; what a restart reads again up to there has been followed before."""
        for offset, record in records:
            if not isinstance(record, Block | Partials) or not record.trace or record.epoch <= handled_to:
                continue
            if followed(record.trace) and len(self._waiting) < WAITING_MAX:
                self._waiting.setdefault(offset, _Incoming(record, began, ended, record.epoch))

    def phase(self, phase: Phase, began: int, ended: int, wall: Wall) -> None:
        if self._waiting or self._transaction.spans:
            self._phases.append((phase, began, ended))

    def sending(self, commit: Commit, since: int, now: int, wall: Wall) -> Commit:
        """`since`: when the logic began with it."""
        reached = _reached(commit)
        due = [offset for offset, incoming in self._waiting.items() if incoming.epoch <= reached]
        if due:
            self._transaction.open(sorted(map(self._waiting.pop, due), key=lambda one: not one.causes), wall)
        phases, self._phases = self._phases, []
        if not self._transaction.spans:
            return commit
        for phase, began, ended in phases:
            self._transaction.part(phase.value, began, ended, wall, causing=phase is not Phase.STORE)
        cause = next((one.span.context for one in self._transaction.spans if one.incoming.causes), "")
        return replace(commit, sends=tuple(_caused(send, cause) for send in commit.sends)) if cause else commit

    def sent(self, commit: Commit, began: int, ended: int, wall: Wall, failure: str) -> None:
        self._transaction.part("commit", began, ended, wall)
        if failure or _last_of_step(commit):
            self._transaction.end(ended, wall, failure)

    def end(self, at: int, wall: Wall, failure: str) -> None:
        """Of a transaction that nothing more is heard of."""
        self._transaction.end(at, wall, failure)


def _caused(send: tuple[Address, Record], cause: str) -> tuple[Address, Record]:
    address, record = send
    return (address, replace(record, trace=cause)) if isinstance(record, Results | Block | Partials) else send


def _reached(commit: Commit) -> int:
    """The epoch up to which this transaction's sends have their causes."""
    progress = commit.progress
    assert isinstance(progress, JoinerProgress | MergerProgress)
    if progress.cursor is None:
        return progress.frontier
    return progress.cursor.frontier if isinstance(progress, MergerProgress) else epoch_of(progress.cursor.probe_stamp)


def _last_of_step(commit: Commit) -> bool:
    assert isinstance(commit.progress, JoinerProgress | MergerProgress)
    return commit.progress.cursor is None
