"""One partition of a topic, followed: records in order, read-committed, and what the newest of each key is.

Readers are read-committed. Control records and aborted ones take offsets, so a reader's place is what the end of the
partition is said to be, never a count of records.

A read is bounded in records and in bytes; what the client has fetched beyond them waits for the next. So at most
`FETCHED_KBYTES` and the answer to one fetch are in memory, twice, before anything is decoded.

Clients do not survive a fork: make these objects in the process that uses them.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from biclique.ports.kafka_errors import PASSING, UNKNOWN_TOPIC, told, trouble
from biclique.ports.log import Bounds
from biclique.ports.refusals import Refused, UnfitTopic, Unreachable

SECONDS = 30.0  # of one request; what takes longer has an unknown outcome
PAUSE_S = 0.1  # between two questions to a broker that does not know yet
FETCHED_KBYTES = 32_768
# A client whose queue is full looks again so much later whether there is room: a second, if nothing else is said. Who
# reads a backlog waited for most of it again and again, and who picks single messages, with a queue of one, each time.
REFILL_MS = 5
READ_BYTES_MAX = 16 << 20  # of one read of more records than one
# Where the client stands is not there, or nothing is there as far as some broker has heard: it is placed anew.
LOST_PLACE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}) | UNKNOWN_TOPIC


class LostRecords(Refused):
    """A partition ends before the place that was read to: what stood there is gone."""


class Received(NamedTuple):
    value: bytes
    headers: Mapping[str, bytes]
    key: bytes


class Follower:
    """Follows one partition. Reading on is the common case and costs no request of its own. `patience_s`: how long a
    read waits where there is nothing yet."""

    def __init__(self, client: Mapping[str, Any], topic: str, partition: int, patience_s: float) -> None:
        self._place, self._patience_s = TopicPartition(topic, partition), patience_s
        self._consumer = Consumer(
            {
                # The broker answers as soon as there is something; a fetch is waited for only where another offset is
                # wanted meanwhile.
                "fetch.wait.max.ms": 200,
                "fetch.error.backoff.ms": 50,
                "queued.max.messages.kbytes": FETCHED_KBYTES,
                "fetch.queue.backoff.ms": REFILL_MS,
                **client,
                "group.id": "none",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        self._next: int | None = None
        self._waiting: deque[Any] = deque()  # fetched and not handed on
        self._woken = False  # by one message: others may be behind it
        self._bounds = Bounds(0, 0)
        self._beyond_since: float | None = None

    def close(self) -> None:
        self._consumer.close()

    def read(
        self, offset: int, limit: int, bytes_max: int = READ_BYTES_MAX
    ) -> tuple[list[tuple[int, Received]], int, Bounds]:
        if offset != self._next:
            self._go_to(offset)
        if self._next is None:
            return [], offset, self._bounds
        passed = self._next  # also where the place is lost on the way: what is handed on is never handed on again
        if not self._waiting:
            self._waiting.extend(self._consumer.consume(limit, self._patience_s))
        elif self._woken and len(self._waiting) < limit:
            self._waiting.extend(self._consumer.consume(limit - len(self._waiting), 0.0))
        self._woken = False
        found: list[tuple[int, Received]] = []
        size = 0
        while self._waiting and len(found) < limit:
            message = self._waiting[0]
            error = message.error()
            if error is None:
                size += len(message)
                if found and size > bytes_max:
                    break
                headers = dict(message.headers() or ())
                found.append((message.offset(), Received(message.value() or b"", headers, message.key() or b"")))
                self._next = passed = message.offset() + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                self._next = passed = message.offset()
            elif error.code() in LOST_PLACE:
                self._go_to(passed)
                break
            elif error.code() not in PASSING:
                raise trouble(error, self._doing) or KafkaException(error)
            self._waiting.popleft()
        low, high = self._consumer.get_watermark_offsets(self._place, cached=True)
        self._bounds = Bounds(max(self._bounds.start, low), max(self._bounds.end, high))
        return found, passed if self._next is None else self._next, self._bounds

    def wait(self, seconds: float) -> bool:
        """Until more has come, at most so long. False: it has not, or something was left unread before."""
        if self._waiting or self._next is None:
            time.sleep(seconds)
            return False
        # One message, since a wait for several would last until all of them are there.
        self._waiting.extend(self._consumer.consume(1, seconds))
        self._woken = bool(self._waiting)
        return any(message.error() is None for message in self._waiting)

    @property
    def _doing(self) -> str:
        return f"reading partition {self._place.partition} of topic {self._place.topic}"

    def _go_to(self, offset: int) -> None:
        """`_next` stays None where the broker cannot say yet where the partition begins: the caller asks again."""
        self._next = None
        self._waiting.clear()
        found = self._asked_bounds()
        if found is None or self._is_beyond(offset, found):
            return
        self._bounds = found
        self._next = max(offset, self._bounds.start)
        self._consumer.assign([TopicPartition(self._place.topic, self._place.partition, self._next)])

    def _is_beyond(self, offset: int, found: Bounds) -> bool:
        """A new leader may lag for a moment; what stays gone is lost."""
        if offset <= found.end:
            self._beyond_since = None
            return False
        now = time.monotonic()
        if self._beyond_since is None:
            self._beyond_since = now
        elif now - self._beyond_since > SECONDS:
            raise LostRecords(
                f"partition {self._place.partition} of topic {self._place.topic} ends at offset {found.end}, and was "
                f"read to {offset} before: it was made anew or has lost records; restore it, or begin the query anew "
                "under another BICLIQUE_PREFIX"
            )
        return True

    def stable_end(self) -> int | None:
        """The last stable offset, as the broker says now; None while it cannot say."""
        found = self._asked_bounds()
        return None if found is None else found.end

    def _asked_bounds(self) -> Bounds | None:
        """A topic is made before every broker has heard of it; one that stays unknown is missing."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                with told(self._doing):
                    return Bounds(*self._consumer.get_watermark_offsets(self._place, SECONDS))
            except Unreachable:
                return None
            except UnfitTopic:
                if time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_S)


class ProgressReader:
    """The newest committed progress of each owner in one partition: a unit's generations share one."""

    def __init__(self, client: Mapping[str, Any], topic: str, partition: int) -> None:
        # It only ever reads on, and hardly ever anything new: the broker may keep its requests for long.
        self._follower = Follower({**client, "fetch.wait.max.ms": 1000}, topic, partition, patience_s=0.05)
        self._found: dict[str, bytes] = {}
        self._next, self._topic = 0, topic

    def close(self) -> None:
        self._follower.close()

    def newest(self, owner: str, written: int = 0) -> bytes | None:
        """As of now: everything below the last stable offset is read first. `written`: what stands below this offset is
        waited for, too, though a transaction of another owner hold it up. None: there is none."""
        while self._read_on(owner, written) and owner not in self._found:
            pass  # what was its newest when the end was asked for may have been compacted away for one behind it
        return self._found.get(owner)

    def _read_on(self, owner: str, written: int) -> bool:
        """Whether there was anything to read."""
        deadline, end, before = time.monotonic() + SECONDS, self._follower.stable_end(), self._next
        while end is None or self._next < max(end, written):
            messages, self._next, _ = self._follower.read(self._next, 1000)
            self._found.update((message.key.decode(), message.value) for _, message in messages)
            if end is None:
                time.sleep(PAUSE_S)
                end = self._follower.stable_end()
            if messages:
                deadline = time.monotonic() + SECONDS
            elif time.monotonic() > deadline:
                raise Unreachable(self._held_up(owner, end))
        return self._next > before

    def _held_up(self, owner: str, end: int | None) -> str:
        if end is None or self._next < end:
            return f"Kafka does not answer while reading the progress of {owner} in {self._topic}"
        return (
            f"the progress of {owner} in {self._topic} stands behind a transaction of somebody else: it shows when "
            "that ends or times out"
        )
