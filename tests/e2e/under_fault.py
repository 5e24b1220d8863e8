"""A query on the cluster through which both sides flow while faults strike: what went in, what is read all the while,
what struck and when it had recovered, and the judgement. Input, reader, oracle and table are those of tests/chaos.

Faults may strike one upon the other. Each has recovered when results are read whose rows were both made after it.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from confluent_kafka.admin import AdminClient

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.flow import Flow
from tests.chaos.judging import beyond, judge
from tests.chaos.reader import Reader
from tests.chaos.report import table
from tests.chaos.run import KEYS, Place, Struck, place_of
from tests.chaos.stage import GROUPED, Shape, make_topics, manifest_of
from tests.chaos.truth import SIDES
from tests.dataplane.topics import committed
from tests.e2e.kube import Kube
from tests.e2e.leftovers import not_swept, objects_of_queries

Kind = tuple[str, str]  # of a pod: role and tier
RATE = 600
READY_S, FIRST_RESULTS_S, RECOVERY_S = 420.0, 120.0, 420.0
DELETED_S, SWEPT_S = 60.0, 60.0
LOOK_S = 0.1


def seed() -> int:
    """Of victims, moments and rows: `make e2e-faults SEED=7`."""
    return int(os.environ.get("SEED") or 1)


@dataclass(frozen=True)
class Servers:
    """Where Kafka and Redis are. `for_pods`: Kafka, which they may reach by another way than this machine."""

    kafka: str
    for_pods: str
    redis: str


def beside(kafka: KafkaServer, redis: RedisServer) -> Servers:
    """As processes of this machine, at an address of it that pods reach."""
    return Servers(kafka.bootstrap, kafka.bootstrap, redis.url)


@dataclass(frozen=True)
class Open:
    """A fault that is over and not recovered from. `made`: how many rows of each side there were by then."""

    fault: str
    victim: str
    before: Place
    seconds: float
    ended: float
    made: dict[str, int]
    noted: list[str]


class UnderFault:
    """`executors`: of every tier; 0: units run in their drivers. `rate`: rows a second and side."""

    def __init__(self, kube: Kube, servers: Servers, shape: Shape, executors: int, rate: int = RATE) -> None:
        self.kube, self.name = kube, f"faults-{uuid.uuid4().hex[:8]}"
        self.struck: list[Struck] = []
        self._open: list[Open] = []
        self._servers, self._stopping = servers, threading.Event()
        make_topics(AdminClient({"bootstrap.servers": servers.kafka}), self.name)
        more = (
            f'  state: {{redis: {{url: "{servers.redis}"}}}}\n'
            f"  tiers: {{executors: {executors}, cpu: 100m}}\n"
            "  joiners: {memory: 512Mi}\n"
        )
        began = time.monotonic()
        kube.apply(manifest_of(shape, self.name, servers.for_pods, more))
        kube.wait(self.resource, "condition=Ready", READY_S)
        self.ready_s = time.monotonic() - began
        self.id = str(kube.object(self.resource)["status"]["id"])
        self.flow = Flow(servers.kafka, self.name, rate, KEYS, random.Random(f"{seed()}/flow"))
        self.reader = Reader(servers.kafka, f"{self.name}-out", shape is GROUPED)
        self._thread = threading.Thread(target=self._watch, daemon=True, name="recoveries")
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.flow.stop()
        self.reader.stop()
        self.kube.said("delete", self.resource, "--timeout=110s", "--ignore-not-found")

    @property
    def resource(self) -> str:
        return f"joinquery/{self.name}"

    def begin(self) -> None:
        """Undisturbed, until results come; from then on some rows are late, and some are none."""
        assert self.reader.wait_for(100, FIRST_RESULTS_S), self.kube.story()
        self.flow.set_aside.set()

    # --- the cluster -------------------------------------------------------------------------------------------------

    @property
    def selector(self) -> str:
        return f"biclique.dev/query={self.name}"

    def pods(self) -> dict[Kind, list[str]]:
        found: dict[Kind, list[str]] = {}
        for pod in running(self.kube, self.selector):
            labels = pod["metadata"]["labels"]
            kind = labels["biclique.dev/role"], labels["app.kubernetes.io/component"]
            found.setdefault(kind, []).append(pod["metadata"]["name"])
        return found

    def drivers(self) -> list[str]:
        return sorted(name for (role, _), names in self.pods().items() if role == "driver" for name in names)

    def until(self, kind: str, reason: str, said: str, limit_s: float) -> float:
        """The seconds until a condition has this reason, and a message with these words."""
        began = time.monotonic()
        while (found := self.kube.condition(self.name, kind))[1] != reason or said not in found[2]:
            assert time.monotonic() < began + limit_s, f"{kind} is {found}\n{self.kube.story()}"
            time.sleep(0.5)
        return time.monotonic() - began

    def change(self, **spec: Any) -> None:
        self.kube.said("patch", self.resource, "--type=merge", "--patch", json.dumps({"spec": spec}))

    # --- faults ------------------------------------------------------------------------------------------------------

    @contextmanager
    def strikes(self, fault: str, victim: str) -> Iterator[list[str]]:
        """Yields what is noted of it."""
        before, began = self.place(), time.monotonic()
        noted: list[str] = []
        yield noted
        self.is_over(fault, victim, before, time.monotonic() - began, noted)

    def place(self) -> Place:
        return place_of(self.flow, self.reader)

    def is_over(self, fault: str, victim: str, before: Place, seconds: float, noted: list[str]) -> None:
        print(f"{victim}: {fault}, rows {before.r:,} and {before.s:,}, results {before.results:,}", *noted, flush=True)
        self._open.append(Open(fault, victim, before, seconds, time.monotonic(), dict(self.flow.sent), noted))

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_S):
            for one in list(self._open):
                if self.has_joined(one.made):
                    recovered_s = time.monotonic() - one.ended
                    after, note = self.place(), "; ".join(one.noted)
                    self.struck.append(Struck(one.fault, one.victim, one.before, after, one.seconds, recovered_s, note))
                    print(f"{one.victim}: {one.fault}, recovered in {recovered_s:.1f} s", flush=True)
                    self._open.remove(one)

    def has_joined(self, made: dict[str, int]) -> bool:
        """Results have been read whose rows were made when there were so many."""
        return all(self.reader.newest[side] >= made[side] for side in SIDES)

    def joins_on(self, limit_s: float) -> float:
        """The seconds until what is made from now on is in results."""
        began, made = time.monotonic(), dict(self.flow.sent)
        while not self.has_joined(made):
            assert time.monotonic() < began + limit_s, self.kube.story()
            time.sleep(LOOK_S)
        return time.monotonic() - began

    def recovers(self) -> None:
        deadline = time.monotonic() + RECOVERY_S
        while self._open:
            assert time.monotonic() < deadline, f"not recovered from {self._open}\n{self.kube.story()}"
            time.sleep(LOOK_S)
        self.kube.wait(self.resource, "condition=Ready", READY_S)

    # --- the judgement -----------------------------------------------------------------------------------------------

    def flows_to(self, rows: int) -> None:
        while min(self.flow.sent.values()) < rows:
            time.sleep(LOOK_S)

    def judged(self) -> str:
        """What was judged, in a sentence; the input goes on."""
        found = judge(self.flow, self.reader, self._servers.kafka, self.id, print)
        assert not found.wrong, "\n".join([*found.wrong, self.kube.story()])
        assert found.late and found.dead, "some were made so"
        assert all(each.before.r < each.after.r and each.before.s < each.after.s for each in self.struck), "both flow"
        rows = " and ".join(f"{self.flow.sent[side]:,}" for side in SIDES)
        self.flow.resume()
        return (
            f"{rows} rows, {self.reader.read:,} results, {found.late:,} late, {found.dead:,} dead: as the oracle says,"
            " each once"
        )

    def deleted(self) -> str:
        """Within a minute, and nothing of it is left. What was read until then, in a sentence: nothing that is not
        true."""
        began = time.monotonic()
        self.kube.said("delete", self.resource, f"--timeout={DELETED_S:.0f}s")
        while left := objects_of_queries(self.kube):
            assert time.monotonic() < began + DELETED_S, f"{left}\n{self.kube.story()}"
            time.sleep(LOOK_S)
        gone_s = time.monotonic() - began
        self.flow.pause()
        # What one driver had committed may show only when what another left open has been given up.
        deadline, results = time.monotonic() + FIRST_RESULTS_S, -1
        while self.reader.read != results:
            assert time.monotonic() < deadline, f"{self.reader.read} results were read, and {results} are there"
            time.sleep(LOOK_S)
            results = len(committed(self._servers.kafka, f"{self.name}-out"))
        wrong = beyond(self.reader, self.flow.given)
        assert not wrong, wrong
        while left := not_swept(self._servers.kafka, self._servers.redis, self.name, self.id):
            assert time.monotonic() < began + gone_s + SWEPT_S, left
            time.sleep(LOOK_S)
        return f"deleted in {gone_s:.0f} s, swept {time.monotonic() - began - gone_s:.0f} s later; {results:,} results"

    def told(self, judged: str) -> str:
        """The table of what struck, and what came of it."""
        load = os.getloadavg()[0]
        about = f"seed {seed()}; ready after {self.ready_s:.0f} s; load of the machine {load:.0f}; {judged}"
        return f"\n{table(self.struck)}\n{about}"


def running(kube: Kube, selector: str) -> list[dict[str, Any]]:
    """Pods that run, and that nobody has deleted yet."""
    return [
        pod
        for pod in kube.objects("pods", f"--selector={selector}")
        if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]
