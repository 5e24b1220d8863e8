"""What the dispatchers of a running query signal, as the operator will read it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Self

from biclique.plan.make import make_plan
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.messages import Address, Heartbeat, Signal, Topic
from biclique.tiers.progress import DispatcherProgress
from tests.dataplane.query import KafkaQuery

SIGNALS = Address(Topic.SIGNALS, 0)
Newest = Mapping[int, Signal]


class Signals:
    """`newest`: the last one of each dispatcher, by number."""

    def __init__(self, query: KafkaQuery) -> None:
        plan = make_plan(compile_manifest(query.manifest.read_text()))
        settings = KafkaSettings(query.client, query.name, patience_s=0.02)
        self.log = KafkaLog(settings, Wire(plan))
        self._client, self._offset = self.log.client(), 0
        self.newest: dict[int, Signal] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def look(self) -> Newest:
        """At all that there is by now."""
        while True:
            fetched = self._client.read(SIGNALS, self._offset, 1000)
            for _, record in fetched.records:
                if isinstance(record, Signal):
                    self.newest[int(record.sender.name)] = record
            if fetched.next_offset == self._offset:
                return self.newest
            self._offset = fetched.next_offset

    def until(self, done: Callable[[Newest], bool], seconds: float, meanwhile: Callable[[], object] = int) -> float:
        """The moment at which it was seen. `meanwhile`: between two looks."""
        deadline = time.monotonic() + seconds
        while not done(self.look()):
            assert time.monotonic() < deadline, self.newest
            meanwhile()
            time.sleep(0.05)
        return time.monotonic()

    def beats(self, dispatcher: int, offset: int) -> Iterator[tuple[int, Heartbeat]]:
        """Of the shuffler, to this one: what is there by now from that offset on."""
        for at, record in self._client.read(Address(Topic.SHUFFLED, dispatcher), offset, 1000).records:
            if isinstance(record, Heartbeat):
                yield at, record

    def progress(self, dispatcher: int) -> DispatcherProgress:
        found = self._client.read_progress(dispatcher_producer(dispatcher))
        assert isinstance(found, DispatcherProgress)
        return found
