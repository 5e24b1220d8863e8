"""A checkpoint store on another machine, made fit for a loop: it never raises, and it never takes long.

Checkpoints save time and never a result, so the store's troubles must cost no more than the time they would have saved:

* a restore asks again for a while, since to replay the log is dearer than to wait for a server that restarts; then the
  store answers as one that has lost everything. So it does when what it says comes too slowly;
* a write is tried once, and refused if it fails: the unit goes on, and its host asks for the next checkpoint later;
* every call ends within `call_s`, also where the store sends a byte now and then (a socket's own time-out begins
  anew with each): it is made in a thread of its own, and its connection is cut.

It is said once in the log when the store goes, and once when a whole checkpoint, or the list of them, can be had again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from typing import Any, TypeVar

from biclique.ports.checkpoints import CheckpointStore, StoreUnavailable
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

LOG = logging.getLogger(__name__)
T = TypeVar("T")
CUT_S = 0.5  # within which a call ends whose connection was cut


@dataclass(frozen=True)
class Patience:
    """`restore_s`: how long one restore asks again, all its calls together; and how much longer its answers may take
    than is fair, all together: `prompt_s` each, and `bytes_per_s`. Well below what replaying a large state takes.
    Between two attempts it waits `backoff_s`, doubled each time, at most `backoff_max_s`."""

    call_s: float = 5.0
    restore_s: float = 20.0
    prompt_s: float = 0.5
    bytes_per_s: float = 2e6
    backoff_s: float = 0.1
    backoff_max_s: float = 2.0


class PatientStore:
    """`name`: what the store is and where, for the log; without a secret. `cut`: ends the store's call that is under
    way in another thread."""

    def __init__(
        self,
        store: CheckpointStore,
        name: str,
        cut: Callable[[], None],
        patience: Patience = Patience(),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._store, self._name, self._cut, self._patience = store, name, cut, patience
        self._clock, self._sleep = clock, sleep
        self._thread = ThreadPoolExecutor(1, "checkpoints")
        self._away = False
        self._hangs: Future[Any] | None = None  # the call that was given up last
        self._restore_until, self._slow_s = 0.0, 0.0

    def close(self) -> None:
        """Its thread ends, with whatever call is under way."""
        self._cut()
        self._thread.shutdown(wait=False)

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        """Begins a restore, or an adoption: its patience is for the blobs, too."""
        self._restore_until, self._slow_s = self._clock() + self._patience.restore_s, 0.0
        found = self._patiently(lambda: self._store.load(owner))
        if found is None:
            return ()
        self._back()
        return found

    def get(self, name: str) -> bytes | None:
        if self._slow_s > self._patience.restore_s:
            self._gone(StoreUnavailable(f"it is too slow: {self._patience.restore_s:g} s were lost waiting for it"))
            return None
        return self._patiently(lambda: self._store.get(name))

    def put(self, name: str, data: bytes) -> bool:
        try:
            return self._bounded(lambda: self._store.put(name, data))
        except StoreUnavailable as failure:
            self._gone(failure)
            return False

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        try:
            answer = self._bounded(lambda: self._store.publish(owner, manifest))
        except StoreUnavailable as failure:
            self._gone(failure)
            return Publication.UNAVAILABLE
        if answer is Publication.PUBLISHED:
            self._back()
        return answer

    def _patiently(self, call: Callable[[], T]) -> T | None:
        """None: it could not be had while there was patience left, or only once where there was none."""
        pause = self._patience.backoff_s
        while True:
            began = self._clock()
            try:
                found = self._bounded(call)
                size = len(found) if isinstance(found, bytes) else 0
                fair_s = self._patience.prompt_s + size / self._patience.bytes_per_s
                self._slow_s += max(0.0, self._clock() - began - fair_s)
                return found
            except StoreUnavailable as failure:
                self._gone(failure)
            if self._clock() + pause > self._restore_until:
                return None
            self._sleep(pause)
            pause = min(pause * 2, self._patience.backoff_max_s)

    def _bounded(self, call: Callable[[], T]) -> T:
        if self._hangs is not None and wait([self._hangs], CUT_S).not_done:
            # As on a volume whose server is gone: each of them would keep a thread, and what it was to write.
            raise StoreUnavailable("a call that was given up has not ended yet")
        self._hangs, under_way = None, self._thread.submit(call)
        try:
            return under_way.result(self._patience.call_s)
        except TookTooLong:
            self._cut()
            self._hangs = under_way
            self._thread.shutdown(wait=False)
            self._thread = ThreadPoolExecutor(1, "checkpoints")
            raise StoreUnavailable(f"it does not answer within {self._patience.call_s:g} s") from None

    def _gone(self, failure: StoreUnavailable) -> None:
        """Whoever answered is not asked again by the same connection: behind a name there may be another by now, as
        where a server of Redis' has become a replica, which reads, and takes nothing."""
        self._cut()
        if not self._away:
            LOG.warning(
                "checkpoints: %s: %s; work goes on without them, and they are tried again",
                self._name,
                failure,
                extra={"event": "checkpoints.away"},
            )
        self._away = True

    def _back(self) -> None:
        if self._away:
            LOG.warning("checkpoints: %s: it works again", self._name, extra={"event": "checkpoints.back"})
        self._away = False
