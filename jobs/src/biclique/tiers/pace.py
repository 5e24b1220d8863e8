"""How much one transaction takes on, and how far a sender runs ahead of those who read what it writes.

* Slow start: after a start one takes a small share of what it may, for there may be a lot to catch up with; the share
  doubles with each transaction that was quick, and halves after a slow one.
* In flight is what has been sent in epochs that the slowest receiver has not handled. Beyond its bound a sender takes
  nothing more on, so what it does not read waits where it came from, in the end in the user's topics. It signals all
  the same: frontiers go on, so whoever is behind can handle all that was sent, and the sender that is behind all others
  is never the one that waits. Nothing stands still for ever.

Times and frontiers are the host's to know (effects.Orders). Where it knows none, nothing is slow and nobody waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from biclique.tiers.effects import Orders
from biclique.tiers.messages import Address, Block, Partials, Record, Results

QUICK_MS, SLOW_MS = 250, 1000  # of one transaction: results are seen when it ends
SHIFT_MAX = 12


def rows_bytes(sends: Iterable[tuple[Address, Record]]) -> int:
    """Of what receivers have to handle."""
    size = 0
    for _, record in sends:
        match record:
            case Block(rows=rows):
                size += rows.nbytes
            case Partials(keys=keys, states=states, newest=newest):
                columns = (*keys, *(column for state in states for column in state))
                size += newest.nbytes + sum(column.nbytes for column in columns)
    return size


class Pace:
    """`slow_start`: by how many halvings one begins below what it may take."""

    def __init__(self, slow_start: int, in_flight_max: int) -> None:
        self._shift, self._in_flight_max = slow_start, in_flight_max
        self._sent: deque[tuple[int, int]] = deque()  # epoch, bytes
        self._judged = True  # what was sent last
        self.in_flight = 0

    def heed(self, orders: Orders) -> None:
        """Once a turn."""
        if not self._judged:
            self._judged = True
            if orders.commit_ms > SLOW_MS:
                self._shift = min(self._shift + 1, SHIFT_MAX)
            elif orders.commit_ms <= QUICK_MS:
                self._shift = max(self._shift - 1, 0)
        while self._sent and (orders.reached is None or self._sent[0][0] <= orders.reached):
            self.in_flight -= self._sent.popleft()[1]

    @property
    def waits(self) -> bool:
        return self.in_flight >= self._in_flight_max

    def share(self, most: int) -> int:
        return max(1, most >> self._shift)

    def sent(self, epoch: int, sends: Iterable[tuple[Address, Record]]) -> None:
        """Committed. Epochs do not fall. Results are nobody's to handle, and take as long as anything."""
        sends = tuple(sends)
        size = rows_bytes(sends)
        if size or any(isinstance(record, Results) for _, record in sends):
            self._judged = False
        if size:
            self._sent.append((epoch, size))
            self.in_flight += size
