"""What a unit has read and not yet handled: pending blocks, and the signals that say how far each sender has come.

The *frontier* is the least last-signalled epoch over all senders: no block at or below it can still come. Everything
here is a function of the log alone; how reads were batched decides nothing.

Senders of a unit of stage 0 are the dispatchers; of a later stage also the units of the stage before. A sender that a
routing version adds counts from that version's switch-over point on, since it can have nothing to say before it; one
that leaves counts until its last signal, which says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np

from biclique.core.ranks import Totals
from biclique.core.rows import Rows, concat_rows
from biclique.core.stamps import first_stamp_above
from biclique.routing.protocol import Role
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.messages import TIME_NEVER, Block, Producer, Record, Signal
from biclique.tiers.ranking import take_totals

INFINITE = 1 << 60  # an epoch above all: not decided yet
LEAN_STEPS = 8  # of the steps that a unit without room may take, so many are looked at


def joiner_producer(unit: UnitId) -> Producer:
    return Producer("joiner", str(unit))


@dataclass(frozen=True, slots=True)
class HeldMax:
    """Of rows that wait, and of those that are handled in one step; both bounds hold."""

    rows: int = 1 << 22
    bytes: int = 1 << 28

    def allows(self, rows: int, size: int) -> bool:
        return rows <= self.rows and size <= self.bytes


HELD_MAX = HeldMax()


@dataclass(slots=True)
class _Pending:
    """The unhandled rows of one block. `rows` None: dropped for want of memory; the log still has them."""

    offset: int
    side: int
    role: Role
    epoch: int  # of the block's first row
    rows: Rows | None
    count: int
    size: int  # bytes


class Inbox:
    """`silent_to`: the committed frontier at the start: signals are needed from there on, blocks below it are
    replayed."""

    def __init__(
        self,
        stage: int,
        dispatchers: Iterable[Producer],
        senders: Iterable[UnitId],
        silent_to: int,
        held_max: HeldMax = HELD_MAX,
        totals: Totals | None = None,
    ) -> None:
        self.totals = totals
        self._stage, self._silent_to, self._held_max = stage, silent_to, held_max
        self._dispatchers = tuple(dispatchers)
        self._units: dict[UnitId, Producer] = {unit: joiner_producer(unit) for unit in senders}
        self._signals: dict[Producer, list[Signal]] = {}
        self._pending: list[_Pending] = []
        self._shed: dict[int, _Pending] = {}  # those without their rows, by offset
        self.rows_held = self.bytes_held = 0
        self._left: list[tuple[int, UnitId]] = []  # offset of its farewell
        self._newest_version = 0

    # What is read.

    def take_signal(self, offset: int, signal: Signal) -> None:
        self._newest_version = max(self._newest_version, signal.version)  # of a farewell too: it tells of a version
        if signal.ended:
            self._left += [(offset, unit) for unit, sender in self._units.items() if sender == signal.sender]
            self._units = {unit: sender for unit, sender in self._units.items() if sender != signal.sender}
            self._signals.pop(signal.sender, None)
            return
        signals = self._signals.setdefault(signal.sender, [])
        if len(signals) > 1 and signals[-2].watermark == signals[-1].watermark:
            signals.pop()  # between two others it says nothing: a unit may wait for days, and hear one every second
        signals.append(signal)
        if self.totals is not None:
            take_totals(self.totals, offset, signal)

    def take_block(self, offset: int, block: Block, rows: Rows) -> None:
        """The last rows of a block: those that are still to be handled."""
        self._pending.append(_Pending(offset, block.side, block.role, block.epoch, rows, len(rows), rows.nbytes))
        self._hold(self._pending[-1], 1)
        if not self._held_max.allows(self.rows_held, self.bytes_held):
            # By half, so that the next block does not bring the same again.
            self._shed_above(-1, self._held_max.rows // 2, self._held_max.bytes // 2)

    def shed(self, frontier: int, bytes_max: int) -> None:
        """Memory presses: of what comes after this frontier, beyond so many bytes the offsets only."""
        self._shed_above(frontier, self._held_max.rows, self._bytes_to(frontier) + bytes_max)

    def _bytes_to(self, frontier: int) -> int:
        return sum(p.size for p in self._pending if p.rows is not None and p.epoch <= frontier)

    def make_room(self, frontier: int) -> None:
        """For the blocks that a step to this frontier reads again: what comes after it gives way."""
        wanted = [pending for pending in self._shed.values() if pending.epoch <= frontier]
        if wanted:
            rows, size = sum(p.count for p in wanted), sum(p.size for p in wanted)
            self._shed_above(frontier, self._held_max.rows - rows, self._held_max.bytes - size)

    def _shed_above(self, epoch: int, rows: int, size: int) -> None:
        """Keep the offsets only, of the blocks that will be needed last, until so much is held."""
        if self.rows_held <= rows and self.bytes_held <= size:
            return
        for pending in sorted(self._pending, key=lambda p: p.epoch, reverse=True):
            if pending.epoch <= epoch or (self.rows_held <= rows and self.bytes_held <= size):
                return
            if pending.rows is not None:
                self._hold(pending, -1)
                pending.rows = None
                self._shed[pending.offset] = pending

    def _hold(self, pending: _Pending, sign: int) -> None:
        self.rows_held += sign * pending.count
        self.bytes_held += sign * pending.size

    # How far it reaches.

    @property
    def newest_version(self) -> int:
        return self._newest_version

    def senders_from(self, offset: int) -> tuple[UnitId, ...]:
        """The units that count for whoever reads on from this offset: also those whose farewell is still ahead there,
        lest a frontier pass blocks of theirs that have not been read again."""
        self._left = [(at, unit) for at, unit in self._left if at >= offset]
        return (*self._units, *(unit for _, unit in self._left if unit not in self._units))

    def learn(self, table: RoutingTable) -> None:
        """The table of a version at or above `newest_version`: its new senders begin to count."""
        for unit in table.units_of_stage(self._stage - 1):
            if unit not in self._units and 0 < table.born.get(unit, 0) <= self._newest_version:
                self._units[unit] = joiner_producer(unit)

    def frontier(self, table: RoutingTable) -> int | None:
        """None while some sender has not been heard and nothing bounds what it may still send."""
        least = INFINITE
        for sender in self._dispatchers:
            signals = self._signals.get(sender)
            if not signals:
                return None
            least = min(least, signals[-1].epoch)
        for unit, sender in self._units.items():
            signals = self._signals.get(sender)
            reach = signals[-1].epoch if signals else -1
            if born := table.born.get(unit, 0):
                reach = max(reach, self.switch_over(born, table))
            if reach < 0:
                return None
            least = min(least, reach)
        return least

    def behind(self, frontier: int) -> bool:
        """Whether some sender's signal at or above the frontier has not been read yet: its blocks may still be to
        come."""
        for sender in (*self._dispatchers, *self._units.values()):
            signals = self._signals.get(sender)
            if not signals or signals[-1].epoch < frontier:
                return True
        return False

    def switch_over(self, version: int, table: RoutingTable) -> int:
        """S(version) for this stage; infinite while undecided, since it then lies above the frontier."""
        if version < table.version:
            return table.stage_switch[version, self._stage]
        announcers = [*self._dispatchers, *(joiner_producer(u) for u in table.senders_to(self._stage, version))]
        last = [self._signals[sender][-1] for sender in announcers if self._signals.get(sender)]
        if len(last) == len(announcers) and all(signal.version == version for signal in last):
            return max(signal.first_epoch for signal in last)
        return INFINITE

    def watermark_at(self, frontier: int) -> int:
        """The least over the senders, each with its last signal at or below the frontier."""
        heard = [self._signals.get(sender, ()) for sender in (*self._dispatchers, *self._units.values())]
        return min(
            max((signal.watermark for signal in signals if signal.epoch <= frontier), default=TIME_NEVER)
            for signals in heard
        )

    # What is handed on.

    def within(self, frontier: int, above: int, bytes_max: int | None = None) -> int:
        """How far one step from the frontier `above` may go: as far as all blocks that it takes fit into the budget
        together, or into so many bytes if that is less, and one epoch at least."""
        held_max = self._held_max if bytes_max is None else replace(self._held_max, bytes=bytes_max)
        due = sorted((max(p.epoch, above + 1), p.count, p.size) for p in self._pending if p.epoch <= frontier)
        rows = size = 0
        for epoch, count, more in due:
            rows, size = rows + count, size + more
            if epoch > due[0][0] and not held_max.allows(rows, size):
                return epoch - 1
        return frontier

    def lean_steps(self, frontier: int, above: int, bytes_max: int) -> Iterator[tuple[int, int]]:
        """Steps from the frontier `above`, and how many bytes each would store: some of those that store no more than
        `bytes_max`, the furthest first, and at last the one to the first epoch that stores anything."""
        steps = self._storing_steps(frontier, above)
        found = [(to, size) for to, size in steps if to > above and size <= bytes_max]
        yield from found[:: -max(1, len(found) // LEAN_STEPS)]
        yield from steps[1:2]

    def storing(self, frontier: int, above: int, bytes_max: int) -> int:
        """The furthest step from the frontier `above` that stores no more than so many bytes."""
        return max((to for to, size in self._storing_steps(frontier, above) if size <= bytes_max), default=above)

    def _storing_steps(self, frontier: int, above: int) -> list[tuple[int, int]]:
        """To just before each epoch that stores anything, and to the frontier; and how many bytes each stores."""
        stored: Counter[int] = Counter()
        for p in self._pending:
            if p.role is not Role.PROBE and p.epoch <= frontier:
                stored[max(p.epoch, above + 1)] += p.size
        epochs = sorted(stored)
        return list(
            zip(
                [*(epoch - 1 for epoch in epochs), frontier],
                [0, *accumulate(stored[epoch] for epoch in epochs)],
                strict=True,
            )
        )

    def missing(self, frontier: int) -> tuple[int, ...]:
        """Offsets of the blocks that are needed now and were dropped for want of memory: read them again."""
        return tuple(p.offset for p in self._pending if p.rows is None and p.epoch <= frontier)

    def restore(self, offset: int, block: Record) -> None:
        assert isinstance(block, Block)
        pending = self._shed.pop(offset)
        # Rows at or below the frontier had been handled before they were dropped.
        pending.rows = block.rows.slice(len(block.rows) - pending.count, len(block.rows))
        self._hold(pending, 1)

    def ready(self, frontier: int) -> Mapping[tuple[int, Role], list[Rows]]:
        """Rows at or below the frontier by (side, role), each list unordered among its members. Nothing is removed
        yet."""
        found: dict[tuple[int, Role], list[Rows]] = {}
        bound = first_stamp_above(frontier)
        for pending in self._pending:
            if pending.epoch > frontier:
                continue
            assert pending.rows is not None, "dropped rows are read again before a step"
            count = int(pending.rows.stamps.searchsorted(bound))
            if count:
                rows = pending.rows if count == pending.count else pending.rows.slice(0, count)
                found.setdefault((pending.side, pending.role), []).append(rows)
        return found

    def advance(self, frontier: int) -> None:
        """The rows at or below the frontier have been handled."""
        bound = first_stamp_above(frontier)
        left: list[_Pending] = []
        for pending in self._pending:
            if pending.epoch <= frontier and pending.rows is not None:
                done = int(pending.rows.stamps.searchsorted(bound))
                if done == pending.count:
                    self._hold(pending, -1)
                    continue
                if done:
                    self._hold(pending, -1)
                    pending.rows, pending.count = pending.rows.slice(done, pending.count), pending.count - done
                    pending.size = pending.rows.nbytes
                    self._hold(pending, 1)
            left.append(pending)
        self._pending = left
        for sender, signals in self._signals.items():
            # The last at or below the frontier still tells the watermark there.
            keep = max((i for i, signal in enumerate(signals) if signal.epoch <= frontier), default=0)
            self._signals[sender] = signals[keep:]
        if self.totals is not None:
            self.totals.forget(frontier)

    def earliest(self, next_offset: int, frontier: int) -> int:
        """The earliest log offset that holds a row above the frontier, or tells of the ranks of such rows."""
        told = None if self.totals is None else self.totals.earliest_above(frontier)
        row = self._earliest_row(next_offset, frontier)
        return row if told is None else min(row, told)

    def _earliest_row(self, next_offset: int, frontier: int) -> int:
        bound = first_stamp_above(frontier)
        offsets = (p.offset for p in self._pending if p.rows is None or len(p.rows) == 0 or p.rows.stamps[-1] >= bound)
        return min(offsets, default=next_offset)


def in_stamp_order(parts: list[Rows]) -> Rows | None:
    """One run of rows in canonical order: stamps are unique among tuples, partial results of one stamp go by their ids.

    Each part is in that order. Parts of one sender follow on, and those of several rarely overlap: then there is
    nothing to sort.
    """
    if not parts:
        return None
    parts = sorted(parts, key=lambda rows: int(rows.stamps[0]))
    rows = concat_rows(parts)
    if all(int(a.stamps[-1]) < int(b.stamps[0]) for a, b in pairwise(parts)):
        return rows
    return rows.take(np.lexsort((*reversed(rows.ids), rows.stamps)))
