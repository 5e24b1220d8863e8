"""The shuffler's driver: one streaming query after the other, each from where the dispatchers are.

A query ends when it fails, or when what it reads is no longer what is to be read: a topic has been given partitions, a
source pauses (bursts.py) or is resumed. Either way the next one begins behind what dispatchers have taken, and what is
sent twice they drop. What passes (brokers that do not answer) is tried again with growing pauses for as long as it
lasts; what does not is one sentence (`Refused`).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from confluent_kafka import KafkaException
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from biclique.hosts.shuffle.backlog import Backlog, Gate
from biclique.hosts.shuffle.bursts import Bursts
from biclique.hosts.shuffle.heartbeats import Heartbeats, Silence, silence_of
from biclique.hosts.shuffle.packing import OutOfPlaces, Packing, dispatcher_of
from biclique.hosts.shuffle.scratch import scratch_folder
from biclique.hosts.shuffle.starts import ANEW, starts_of
from biclique.hosts.shuffle.streaming import readers_of, reports_of, sources_of, start_query
from biclique.hosts.shuffle.taken import Taken, taken_of
from biclique.hosts.units.driver import TierFailed, reason_of
from biclique.hosts.units.restarts import Restarts, Saying
from biclique.hosts.units.start_up import made_anew
from biclique.plan.model import Plan
from biclique.ports.control import Control, Pause
from biclique.ports.kafka_log import KafkaLog
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.refusals import Refused, Unreachable
from biclique.query.model import Kafka
from biclique.tiers.messages import Address, Heartbeat, Topic
from biclique.tiers.progress import SourcePartition

LOG = logging.getLogger(__name__)
BEAT_S = 1.0  # between two heartbeats: idleness is known that much later at most
# A record's own time; Spark's source reads none without it.
BEYOND_TIME = "that overflows when converting to Spark's"
NOT_ALLOWED = re.compile(r"Not authorized to access (?:topics: \[([^\]]*)\]|group: (\S+))")
LOOK_S = 5.0  # between two looks at how many partitions there are


class ShufflerDriver:
    """`access`, `sink`: see `start_query`. `heartbeats`: of an attempt greater than that of every earlier driver
    of this query. `show`: called every second or so, with what keeps it from reading; empty: it reads, or rests because
    it is to. `asking`: what it does while it waits for Kafka, which it does for longer than between two calls of `show`
    when there is no answer."""

    def __init__(
        self,
        spark: SparkSession,
        plan: Plan,
        packing: Packing,
        log: KafkaLog,
        topics: SourceTopics,
        access: Sequence[Mapping[str, str]],
        sink: Mapping[str, str],
        control: Control,
        heartbeats: Heartbeats,
        stopping: Callable[[], bool],
        show: Callable[[str], None] = lambda why: None,
        asking: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._spark, self._plan, self._packing, self._heartbeats = spark, plan, packing, heartbeats
        self._log, self._topics, self._control, self._stopping = log, topics, control, stopping
        self._access, self._sink, self._show, self._asking = access, sink, show, asking
        self._backlog = Backlog(plan, log, time.monotonic)
        self._gate = Gate(self._backlog)
        idle_after_ms = min(source.event_time.idle_after_us for source in plan.query.sources) // 1000
        self._silence = Silence(silence_of(idle_after_ms), heartbeats.interrupted, monotonic_ms)
        self._read_topics = {source.input.topic for source in plan.query.sources if isinstance(source.input, Kafka)}
        self._identities: dict[str, str] = {}  # of the sources' topics, as this driver found them

    def run(self) -> None:
        """Until it is to stop. Raises Refused."""
        try:
            self._run()
        finally:
            self._backlog.close()

    def _run(self) -> None:
        restarts, saying = Restarts(), Saying()
        while not self._stopping():
            began = time.monotonic()
            try:
                self._one_query()
                continue
            except Unreachable as trouble:
                why = str(trouble)
                self._heartbeats.interrupted()
                wait_s: float | None = restarts.after_wait(time.monotonic() - began)
            except (PySparkException, KafkaException) as error:
                why = reason_of(error)
                wait_s = restarts.after_failure(time.monotonic() - began)
            self._show(why)
            if (stop := for_a_person(why, self._read_topics)) is not None:
                raise Refused(f"the shuffler has stopped: {stop}")
            if wait_s is None:
                raise TierFailed(f"the shuffler has failed {restarts.used + 1} times in a row, and has stopped: {why}")
            if saying.is_due(why, time.monotonic()):
                told = {"event": "shuffler.restart", "wait_s": wait_s, "why": why}
                LOG.warning("the shuffler begins again in %.1f s: %s", wait_s, why, extra=told)
            self._rest(wait_s)

    def _rest(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stopping() and time.monotonic() < until:
            time.sleep(0.1)

    def _one_query(self) -> None:
        if self._gate.closed and self._gate.look():
            with self._silence.asked():
                self._heartbeats.waits(self._topics.ends)
            self._show("")
            self._rest(BEAT_S)
            return
        with self._silence.asked(), self._asking():
            self._refuse_made_anew()
            paused, taken = self._paused(), self._taken()
            starts = starts_of(self._plan.query, taken.last, self._topics, under_way=taken.under_way)
            known = set(starts)
            resting = {key for key in known if self._name(key.source) in paused}
            ends = self._topics.ends(known)
            undecided = self._topics.undecided(ends)
            self._send(self._heartbeats.unread(starts, ends, resting, monotonic_ms(), undecided))
        starts = {key: offset for key, offset in starts.items() if key not in resting}
        if not starts:
            self._show("")
            self._rest(BEAT_S)
            return
        self._heartbeats.begin(taken.last, readers_of(sources_of(starts), self._topics.topic, self._access))
        with scratch_folder() as folder:
            query = start_query(self._spark, self._topics, self._packing, self._access, self._sink, starts, folder)
            try:
                self._follow(query, known, paused)
            finally:
                query.stop()

    def _refuse_made_anew(self) -> None:
        """Offsets may not tell: a topic that is filled again may hold more than the one before."""
        found = self._topics.identities()
        self._identities = self._identities or found
        for topic, identity in found.items():
            if self._identities[topic] != identity:
                raise made_anew(topic)

    def _name(self, source: int) -> str:
        return self._plan.query.sources[source].name

    def _paused(self) -> set[str]:
        """Those that are paused; one of which the manifest says something else by now is resumed."""
        declared = {source.name: repr(source) for source in self._plan.query.sources}
        for name, pause in self._control.paused().items():
            if pause.declared and declared.get(name) != pause.declared:
                told = {"event": "source.resumed", "source": name}
                LOG.info("source %s is read again: its declaration has changed", name, extra=told)
                self._control.resume(name)
        return set(self._control.paused())

    def _pause(self, source: int, why: str) -> None:
        name = self._name(source)
        told = {"event": "source.paused", "source": name, "why": why}
        LOG.warning("source %s pauses: %s; mend what writes it or the manifest, then resume it", name, why, extra=told)
        self._control.pause(name, Pause(why, repr(self._plan.query.sources[source])))

    def _taken(self) -> Taken:
        client = self._log.client()
        try:
            return taken_of(self._plan, self._log, client)
        finally:
            client.close()

    def _follow(self, query: Any, known: set[SourcePartition], paused: set[str]) -> None:
        """Until it ends, or another one is to take its place. Raises what ended it."""
        looked, bursts, saying = time.monotonic(), Bursts(self._plan.query.sources), Saying()
        heartbeats = self._heartbeats
        while not self._stopping():
            if query.awaitTermination(BEAT_S):
                return
            for report in reports_of(query, heartbeats.batch):
                if not heartbeats.batch_ended(report):
                    told = {"event": "reports.missed", "batch": heartbeats.batch}
                    LOG.warning("reports of batches before number %d were missed", heartbeats.batch, extra=told)
                    heartbeats.caught_up_with(self._taken().last)
                for source, why in bursts.batch_ended(report, monotonic_ms()).items():
                    self._pause(source, why)
            try:
                self._beat()
                self._show("")
            except Unreachable as trouble:
                heartbeats.interrupted()
                self._show(str(trouble))
                if saying.is_due(str(trouble), time.monotonic()):
                    told = {"event": "heartbeat.unsent"}
                    LOG.warning("a heartbeat could not be sent, the next one tells the same: %s", trouble, extra=told)
            if set(self._control.paused()) != paused:
                return
            if time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                if self._gate.look():
                    told = {"event": "shuffler.waits"}
                    LOG.info("the dispatchers are behind: nothing more is read until they have caught up", extra=told)
                    return
                self._refuse_made_anew()
                if set(self._topics.partitions()) != known:
                    LOG.info("a topic has other partitions than before", extra={"event": "source.repartitioned"})
                    return

    def _beat(self) -> None:
        """The clock is read before the ends: what came after it is not what this beat is about."""
        with self._silence.asked() as now_ms, self._asking():
            ends = self._topics.ends(self._heartbeats.partitions)
            self._send(self._heartbeats.beats(ends, now_ms, self._topics.undecided(ends)))

    def _send(self, heartbeats: Iterable[Heartbeat]) -> None:
        beats: dict[int, list[Heartbeat]] = {}
        for beat in heartbeats:
            number = dispatcher_of(SourcePartition(beat.source, beat.partition), self._plan.dispatchers)
            beats.setdefault(number, []).append(beat)
        for number, found in beats.items():
            self._log.append(Address(Topic.SHUFFLED, number), found)


def for_a_person(why: str, sources: Collection[str] = ()) -> str | None:
    """What ended a query and would end the next one, too, as a sentence; None: it may pass. `sources`: their topics."""
    if OutOfPlaces.__name__ in why:
        return why.partition(": ")[2]
    if (refused := NOT_ALLOWED.search(why)) is not None:
        if refused[2] is not None:
            return f"Kafka does not allow it to read as group {refused[2]}: grant this principal Read on the group"
        read = all(topic in sources for topic in refused[1].split(", "))
        does, right = ("read", "Read") if read else ("write to", "Write")
        return f"Kafka does not allow it to {does} topic {refused[1]}: grant this principal Describe and {right}"
    if BEYOND_TIME in why:
        return (
            f"{why.rpartition('exception: ')[2]} {ANEW}, with startingOffsets behind it, and have the topic refuse such"
            " records (message.timestamp.after.max.ms)"
        )
    return None


def monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
