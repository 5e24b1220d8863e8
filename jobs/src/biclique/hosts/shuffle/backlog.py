"""How far the dispatchers are behind the shuffler, and when that is too far.

Where they are slow or gone, shuffled would grow by all that the sources hold. So the shuffler closes its gate at some
messages, and the user's topics are the buffer. It opens again when the dispatchers have taken nearly all of them: the
next query begins behind what was taken, and would send again what still lies there.
"""

from __future__ import annotations

from collections.abc import Callable

from biclique.plan.model import Plan
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.kafka_receivers import Receivers
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.messages import Address, Topic
from biclique.tiers.progress import DispatcherProgress

CLOSED_AT, OPEN_AT = 1_024, 16  # messages of one dispatcher: of up to 16,384 records each


class Gate:
    """`messages`: how many the one that is furthest behind has not taken."""

    def __init__(self, messages: Callable[[], int]) -> None:
        self._messages = messages
        self.closed = False

    def look(self) -> bool:
        """Whether it is closed."""
        behind = self._messages()
        self.closed = behind > (OPEN_AT if self.closed else CLOSED_AT)
        return self.closed


class Backlog:
    """Of one shuffler's driver."""

    def __init__(self, plan: Plan, log: KafkaLog, clock: Callable[[], float]) -> None:
        self._owners = [dispatcher_producer(number) for number in range(plan.dispatchers)]
        self._log, self._receivers = log, Receivers(log.settings, clock)

    def close(self) -> None:
        self._receivers.close()

    def __call__(self) -> int:
        most = 0
        for owner, progress in zip(self._owners, self._receivers.progress(self._owners), strict=True):
            if isinstance(progress, DispatcherProgress):  # else: not known yet
                end = self._log.bounds(Address(Topic.SHUFFLED, owner.name)).end
                most = max(most, end - progress.offset)
        return most
