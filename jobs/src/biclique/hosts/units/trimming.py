"""The logs of a query are trimmed by whoever drives their readers: each tier its own input, now and then.

    dispatchers    shuffled, up to what has been taken (where units fetch payload from it: to what no window can want
                   any more, tiers/payload_trimming.py); signals, up to the last word of each dispatcher
    joiners        units, down to the oldest block that is unhandled or holds a tuple of some window (tiers/trimming.py)
    mergers        partials, where a time closes groups; else they are what the state is rebuilt from

A look costs a few requests for each partition, whatever it holds: the broker knows until when each record is needed. A
window that counts tuples and full history are kept whole. How far is written down, and can be read by everybody, before
anything is deleted: who finds more to be gone than that stops (`TrimmedTooFar` of tiers/reading_on.py).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from confluent_kafka import KafkaException

from biclique.hosts.units.restarts import Saying
from biclique.plan.model import Plan
from biclique.ports.control import Control
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.refusals import Refused, Unreachable
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Address, Producer, Topic, unit_address
from biclique.tiers.payload_trimming import PayloadMarks
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, MergerProgress, TrimProgress
from biclique.tiers.trimming import keep_signals_from, keep_with, need_of, trimmer_of

LOG = logging.getLogger(__name__)
EVERY_S = 30.0
VISIBLE_S, ENDS_S = 30.0, 5.0


@dataclass(frozen=True)
class Keep:
    """What of a partition is still needed: offsets from `start` on, because of `why`; `trimmed` before it just now."""

    address: Address
    start: int
    why: str
    trimmed: int = 0


class Trimming:
    """Of one tier. `tables`: every version so far. `units`: those that the tier keeps running."""

    def __init__(
        self,
        plan: Plan,
        tier: str,
        name: str,
        log: KafkaLog,
        tables: Callable[[], list[RoutingTable]],
        units: Callable[[], frozenset[UnitId]],
    ) -> None:
        self._plan, self._tier, self._log, self._tables, self._units = plan, tier, log, tables, units
        self._client, self._me = log.client(), Producer("trimmer", name)
        self._marks = [PayloadMarks(plan) for _ in range(plan.dispatchers)]

    def close(self) -> None:
        self._client.close()

    def take_over(self) -> list[Keep]:
        """From whoever trimmed for this tier before, and nothing more: a transaction that it left open would hide from
        a unit that starts again what the unit itself has committed, until it times out."""
        self._client.fence(self._me)
        return []

    def look(self) -> list[Keep]:
        """Trim what is needed no more. Raises what Kafka says against it."""
        match self._tier:
            case "dispatcher":
                wanted = self._of_dispatchers()
            case "joiner":
                wanted = self._of_joiners()
            case _:
                wanted = self._of_mergers()
        return [self._trimmed(keep) for keep in wanted]

    def _of_dispatchers(self) -> Iterator[Keep]:
        found = [self._client.read_progress(dispatcher_producer(number)) for number in range(self._plan.dispatchers)]
        known = [progress for progress in found if isinstance(progress, DispatcherProgress)]
        if len(known) < len(found):
            return
        watermark = self._watermark() if self._plan.may_leave_payload else None
        for number, progress in enumerate(known):
            address = Address(Topic.SHUFFLED, number)
            if not self._plan.may_leave_payload:
                yield Keep(address, progress.offset, "not taken yet")
                continue
            self._marks[number].note(progress)
            if watermark is not None:
                yield Keep(address, self._marks[number].keep_from(watermark), "payload in a window")
        yield Keep(Address(Topic.SIGNALS, 0), keep_signals_from(known), "the last word of each dispatcher")

    def _watermark(self) -> int | None:
        """The least of all units; None while one has no progress."""
        tables = self._tables()
        units = tables[-1].units() if tables else ()
        found = [self._client.read_progress(joiner_producer(unit)) for unit in units]
        known = [progress.watermark for progress in found if isinstance(progress, JoinerProgress)]
        return min(known, default=None) if len(known) == len(found) else None

    def _of_joiners(self) -> Iterator[Keep]:
        tables, running = self._tables(), self._units()
        if not tables:
            return
        every = {unit for table in tables for unit in table.units()} | running
        found = {unit: self._client.read_progress(joiner_producer(unit)) for unit in every}
        progress = {unit: known for unit, known in found.items() if isinstance(known, JoinerProgress)}
        for address in sorted({unit_address(unit) for unit in running}, key=str):
            units = [unit for unit in every if unit_address(unit) == address]
            need = need_of(tables[-1], units, running, progress, self._log.bounds(address).end)
            if need is None:
                continue
            before = keep_with(need.unhandled, need.watermark, partial(self._log.first_needed, address))
            yield Keep(address, before, "not handled yet" if before == need.unhandled else "in a window")

    def _of_mergers(self) -> Iterator[Keep]:
        for number in range(self._plan.mergers):
            progress, address = self._client.read_progress(merger_producer(number)), Address(Topic.PARTIALS, number)
            if isinstance(progress, MergerProgress):
                before = keep_with(progress.offset, progress.watermark, partial(self._log.first_needed, address))
                yield Keep(address, before, "not merged yet" if before == progress.offset else "in an open group")

    def _trimmed(self, keep: Keep) -> Keep:
        start = self._log.bounds(keep.address).start
        if keep.start <= start:
            return Keep(keep.address, start, keep.why)
        if keep.address.topic is not Topic.SIGNALS:  # who misses a signal waits for the next
            self._write_down(trimmer_of(keep.address), TrimProgress(keep.start))
        self._log.trim(keep.address, keep.start)
        return Keep(keep.address, keep.start, keep.why, keep.start - start)

    def _write_down(self, owner: Producer, progress: TrimProgress) -> None:
        """Never less than was written before: another driver may have fenced this one, and trimmed further."""
        for _ in range(2):
            if self._is_written(owner, progress):
                return
            if self._client.commit(Commit(self._me, owner, (), progress)) is Outcome.COMMITTED:
                self._wait_for(owner, progress)
                return
            self._client.fence(self._me)
        raise Unreachable(f"Kafka does not commit how far {owner.name} may be trimmed")

    def _is_written(self, owner: Producer, progress: TrimProgress) -> bool:
        known = self._client.read_progress(owner)
        return isinstance(known, TrimProgress) and known.before >= progress.before

    def _wait_for(self, owner: Producer, progress: TrimProgress) -> None:
        """A commit is answered before every reader sees it; another driver may have written more meanwhile."""
        deadline = time.monotonic() + VISIBLE_S
        while not self._is_written(owner, progress):
            if time.monotonic() > deadline:
                raise Unreachable(f"Kafka does not show how far {owner.name} may be trimmed")
            time.sleep(0.05)


def keep_trimming(trimming: Trimming, ended: threading.Event, every_s: float = EVERY_S) -> None:
    """Until `ended`. What stands in the way is said, and never stops a tier, nor trimming for good: its logs grow until
    it is gone, and that is all."""
    saying, do, wait_s = Saying(), trimming.take_over, 0.0
    while not ended.wait(wait_s):
        wait_s = every_s
        try:
            for keep in do():
                if keep.trimmed:
                    told = {"event": "log.trimmed", "log": keep.address, "records": keep.trimmed, "start": keep.start}
                    why = (keep.address, keep.trimmed, keep.start, keep.why)
                    LOG.info("%s: %d trimmed, kept from %d: %s", *why, extra=told)
            do = trimming.look
        except (Refused, Unreachable, KafkaException) as trouble:
            if saying.is_due(str(trouble), time.monotonic()):
                LOG.warning("logs are not trimmed: %s", trouble, extra={"event": "log.untrimmed"})
    trimming.close()


@contextmanager
def trimmed_meanwhile(trimming: Trimming) -> Iterator[None]:
    ended = threading.Event()
    thread = threading.Thread(target=keep_trimming, args=(trimming, ended), name="trimming", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(ENDS_S)  # it may be waiting for Kafka, and what it does is whole or not at all


def tables_of(control: Control) -> list[RoutingTable]:
    """Every version so far."""
    newest = control.table(None)
    versions = range(0 if newest is None else newest.version + 1)
    return [table for version in versions if (table := control.table(version)) is not None]
