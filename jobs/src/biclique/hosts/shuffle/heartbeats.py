"""What the shuffler's driver knows of each source partition, and the heartbeats that follow from it.

A heartbeat says: when this partition had been read to its end, the last record in it was at this place. It is sent into
the same partition of shuffled as the records, behind them: a batch is reported when its messages are in Kafka. That a
partition is idle follows from two heartbeats of one driver (tiers/dispatcher.py); a beat too few costs time, one too
many could make a tuple late, so none is sent on a guess.

That nothing came while Kafka did not answer proves nothing: nobody could write to it either, and those who write come
back one by one. So what a silence of Kafka's interrupts has to be proved anew.

And it is idle no more when another streaming query begins and finds something in it: that came while nothing was read,
and what other partitions have from the same time may be read first. So dispatchers are told before anything is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from typing import Any

from biclique.tiers.messages import UNREAD, Heartbeat
from biclique.tiers.progress import SourcePartition

OBSERVED = "packed"
SILENCES_BITS = 32
ANSWER_MS = 250
UNASKED_MS = 2500  # a beat a second, on a machine that does other things too: whatever makes a partition idle


def proof_of(attempt: int, silences: int) -> int:
    """What heartbeats that prove something together have in common, as their attempt: the driver's, and how often Kafka
    was silent since it began."""
    return (attempt << SILENCES_BITS) + silences


def silence_of(idle_after_ms: int, beat_ms: int = 1000) -> int:
    """So long may Kafka take with one beat: the one before and the one behind it do not prove anything yet. It may take
    as long as it takes when nothing is amiss."""
    return max(ANSWER_MS, idle_after_ms // 2, idle_after_ms - 2 * beat_ms)


class Silence:
    """Of Kafka, as far as a driver can tell: it took so long to answer, or nobody asked it for as long and so nobody
    knows. `least_ms`: see `silence_of`. `broken`: called for each. `clock`: milliseconds, never back."""

    def __init__(self, least_ms: int, broken: Callable[[], None], clock: Callable[[], int]) -> None:
        self._least_ms, self._broken, self._clock = least_ms, broken, clock
        self._heard_ms: int | None = None

    @contextmanager
    def asked(self) -> Iterator[int]:
        """In it Kafka answers, or it ends by an exception. Yields when it began: what came later is not what answers
        are about."""
        began_ms = self._clock()
        if self._heard_ms is not None and began_ms - self._heard_ms >= max(self._least_ms, UNASKED_MS):
            self._broken()
        yield began_ms
        self._heard_ms = self._clock()
        if self._heard_ms - began_ms >= self._least_ms:
            self._broken()


def last_name(key: SourcePartition) -> str:
    """Of what is observed of each batch: the place of the last record of a source partition. A batch's end may lie
    beyond it, behind control records, which no dispatcher ever sees."""
    return f"last_{key.source}_{key.partition}"


class Heartbeats:
    """`last`: the place of the last record that dispatchers had taken of each partition when this query began; absent:
    none. `readers`: of each of the streaming query's sources, by its position: which of ours each topic is."""

    def __init__(self, attempt: int, last: Mapping[SourcePartition, int], readers: Sequence[Mapping[str, int]]) -> None:
        self._attempt, self._silences = attempt, 0
        self._read_to: dict[SourcePartition, int] = {}
        self.begin(last, readers)

    def interrupted(self) -> None:
        """Kafka has not answered for a while."""
        self._silences += 1

    def unread(
        self,
        starts: Mapping[SourcePartition, int],
        ends: Mapping[SourcePartition, int],
        paused: Set[SourcePartition],
        now_ms: int,
        undecided: Set[SourcePartition] = frozenset(),
    ) -> list[Heartbeat]:
        """Before `begin`, of the partitions that have something to be read: `starts`, `ends`, in messages. Markers that
        the query before had read to are nothing new. And of those that are `paused`: what comes into them is not read,
        and nobody says so when it comes. And of those with something `undecided`."""
        behind = (
            key
            for key, start in starts.items()
            if key in paused or key in undecided or ends.get(key, 0) > max(start, self._read_to.get(key, 0))
        )
        return self._of_unread(behind, now_ms)

    def _of_unread(self, keys: Iterable[SourcePartition], now_ms: int) -> list[Heartbeat]:
        return [Heartbeat(*key, UNREAD, now_ms, proof_of(self._attempt, self._silences)) for key in keys]

    def waits(self, ends: Callable[[Iterable[SourcePartition]], Mapping[SourcePartition, int]]) -> None:
        """Nothing is read for now. `ends`: for who wants to know what gathers meanwhile."""

    def begin(self, last: Mapping[SourcePartition, int], readers: Sequence[Mapping[str, int]]) -> None:
        """Another streaming query takes the place of the one before."""
        self._last, self._readers = dict(last), readers
        self._read_to = {}
        self.batch = -1  # the newest that was reported

    def batch_ended(self, report: Mapping[str, Any]) -> bool:
        """`report`: of a batch, as the query's progress has it; told again, it changes nothing. False: reports between
        the last one and this were missed, and what they observed with them; see `caught_up_with`."""
        for position, described in enumerate(report["sources"]):
            end = described["endOffset"]
            for topic, partitions in ((json.loads(end) if isinstance(end, str) else end) or {}).items():
                for number, offset in partitions.items():
                    key = SourcePartition(self._readers[position][topic], int(number))
                    self._read_to[key] = max(self._read_to.get(key, 0), int(offset))
        observed = report.get("observedMetrics", {}).get(OBSERVED, {})
        for key in self._read_to:
            place = observed.get(last_name(key))
            if place is not None:
                self._last[key] = max(self._last.get(key, -1), int(place))
        before, self.batch = self.batch, max(self.batch, int(report["batchId"]))
        return self.batch <= before + 1

    def caught_up_with(self, last: Mapping[SourcePartition, int]) -> None:
        """What dispatchers have taken has been sent, whoever reported it."""
        for key, place in last.items():
            self._last[key] = max(self._last.get(key, -1), place)

    @property
    def partitions(self) -> tuple[SourcePartition, ...]:
        """Of which it is known how far they have been read."""
        return tuple(self._read_to)

    def beats(
        self, ends: Mapping[SourcePartition, int], now_ms: int, undecided: Set[SourcePartition] = frozenset()
    ) -> list[Heartbeat]:
        """`ends`: of the source partitions, in messages, looked up after `now_ms` was read: what came after it is not
        what these beats are about. `undecided`: those with records behind their end whose transaction is open. When
        that commits they are there all at once, with the times at which they were written: nothing that is idle."""
        proof, caught_up = proof_of(self._attempt, self._silences), list[Heartbeat]()
        for key, read_to in self._read_to.items():
            if key in ends and ends[key] <= read_to and key not in undecided:
                caught_up.append(Heartbeat(*key, self._last.get(key, -1), now_ms, proof, read_to))
        return [*caught_up, *self._of_unread((key for key in self._read_to if key in undecided), now_ms)]
