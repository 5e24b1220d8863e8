"""Log and checkpoint store in this process's memory: what the embedded engine runs on. Records stay the objects they
are.

A commit appends everything under one lock, so readers never meet half a transaction, an aborted record or a control
record. Threads may share one log.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence

from biclique.ports.checkpoints import KEPT
from biclique.ports.log import Bounds
from biclique.tiers.effects import BlobsLost, Commit, Fetched, Outcome, Publication
from biclique.tiers.messages import Address, Producer, Record
from biclique.tiers.progress import Manifest, Progress, TrimProgress
from biclique.tiers.trimming import TRIMMER, trimmed_by

ATTEMPT_SHIFT = 32  # incarnations of a later attempt are greater than all of an earlier one


class _Partition:
    __slots__ = ("records", "start")

    def __init__(self) -> None:
        self.start = 0
        self.records: list[Record] = []

    @property
    def end(self) -> int:
        return self.start + len(self.records)


class MemoryLog:
    """`attempt`: which run of the engine this is, where incarnations must go on growing over restarts."""

    def __init__(self, attempt: int = 0) -> None:
        self._attempt = attempt
        self._partitions: dict[Address, _Partition] = defaultdict(_Partition)
        self._progress: dict[Producer, Progress] = {}
        self._incarnations: dict[Producer, int] = {}
        self._lock = threading.Lock()

    def client(self) -> MemoryClient:
        return MemoryClient(self)

    def append(self, address: Address, records: Sequence[Record]) -> None:
        with self._lock:
            self._partitions[address].records.extend(records)

    def bounds(self, address: Address) -> Bounds:
        with self._lock:
            partition = self._partitions[address]
            return Bounds(partition.start, partition.end)

    def written_to(self, address: Address) -> int:
        return self.bounds(address).end

    def trim(self, address: Address, before: int) -> None:
        with self._lock:
            partition = self._partitions[address]
            assert before <= partition.end, "trimmed beyond the end"
            if before > partition.start:
                del partition.records[: before - partition.start]
                partition.start = before

    def snapshot(self) -> tuple[dict[Producer, Progress], dict[Address, int]]:
        """Every progress, and the end of every partition: what `resume` needs where all records have been handled."""
        with self._lock:
            return dict(self._progress), {address: partition.end for address, partition in self._partitions.items()}

    def resume(self, progress: Mapping[Producer, Progress], ends: Mapping[Address, int]) -> None:
        """Into a new log: go on behind partitions whose records are all handled, and therefore not kept."""
        with self._lock:
            assert not self._progress and not self._partitions, "a log is resumed before it is used"
            self._progress.update(progress)
            for address, end in ends.items():
                self._partitions[address].start = end

    def _fence(self, producer: Producer) -> int:
        with self._lock:
            incarnation = self._incarnations.get(producer, self._attempt << ATTEMPT_SHIFT) + 1
            self._incarnations[producer] = incarnation
            return incarnation

    def _read_progress(self, owner: Producer) -> Progress | None:
        with self._lock:
            if owner.tier == TRIMMER:  # only its owner can trim it, and a new one begins where an old one ended
                return TrimProgress(self._partitions[trimmed_by(owner)].start)
            return self._progress.get(owner)

    def _read(self, address: Address, offset: int, limit: int) -> Fetched:
        with self._lock:
            partition = self._partitions[address]
            first = max(offset, partition.start)
            found = partition.records[first - partition.start : first - partition.start + limit]
            return Fetched(tuple(enumerate(found, first)), first + len(found), partition.start, partition.end)

    def _commit(self, incarnation: int, transaction: Commit) -> Outcome:
        with self._lock:
            if incarnation != self._incarnations[transaction.producer]:
                return Outcome.FENCED
            for address, record in transaction.sends:
                self._partitions[address].records.append(record)
            self._progress[transaction.owner] = transaction.progress
            return Outcome.COMMITTED


class MemoryClient:
    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._incarnations: dict[Producer, int] = {}

    def fence(self, producer: Producer) -> int:
        self._incarnations[producer] = self._log._fence(producer)
        return self._incarnations[producer]

    def read_progress(self, owner: Producer) -> Progress | None:
        return self._log._read_progress(owner)

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        return self._log._read(address, offset, limit)

    def commit(self, transaction: Commit) -> Outcome:
        assert transaction.producer in self._incarnations, f"{transaction.producer} commits without a fence"
        return self._log._commit(self._incarnations[transaction.producer], transaction)


class MemoryStore:
    """Checkpoints of an engine that need not survive its process. Bytes are immutable, so nothing is copied."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._manifests: dict[Producer, tuple[Manifest, ...]] = {}  # newest first
        self._blobs: dict[str, bytes] = {}

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        with self._lock:
            return self._manifests.get(owner, ())

    def get(self, name: str) -> bytes | None:
        with self._lock:
            return self._blobs.get(name)

    def put(self, name: str, data: bytes) -> bool:
        with self._lock:
            self._blobs[name] = data
        return True

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
        with self._lock:
            kept = self._manifests.get(owner, ())
            if kept and kept[0].incarnation > manifest.incarnation:
                return Publication.SUPERSEDED
            if kept and kept[0] == manifest:
                return Publication.PUBLISHED
            lost = frozenset(blob.name for blob in manifest.blobs if blob.name not in self._blobs)
            if lost:
                return BlobsLost(lost)
            self._manifests[owner] = (manifest, *kept[: KEPT - 1])
            named = {blob.name for manifests in self._manifests.values() for m in manifests for blob in m.blobs}
            for dropped in kept[KEPT - 1 :]:
                for blob in dropped.blobs:
                    if blob.name not in named:
                        self._blobs.pop(blob.name, None)
            return Publication.PUBLISHED
