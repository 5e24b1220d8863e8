"""A query's whole life, as a person leads it: applied, ready, results, deleted. What is read from Kafka is what the
oracle says, and nothing is left but the person's own topics. How fast that is to be, and how much memory it may take,
is asserted here, and nothing is compiled that the image has."""

from __future__ import annotations

import random
import shlex
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import KafkaQuery
from tests.dataplane.test_tiers import matches
from tests.e2e.infrastructure import ROOT
from tests.e2e.insides import GIB, compiled_by, memory_of
from tests.e2e.kube import Kube
from tests.e2e.leftovers import not_swept, objects_of_queries

# The tests pause, and of a source that was idle for some seconds what another overtakes would be late.
MANIFEST = """\
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: {name}}}
spec:
  sources:
    - name: r
      schema: "k INT, v BIGINT"
      eventTime: {{lateness: 1m}}
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-r, format: json}}
    - name: s
      schema: "k INT, v BIGINT"
      eventTime: {{lateness: 1m}}
      kafka: {{bootstrapServers: "{brokers}", topic: {name}-s, format: json}}
  sql: "SELECT r.v AS rv, s.v AS sv FROM r JOIN s ON {predicate}"
  topics: {{partitions: 2}}
  plan: {{subgroups: {{r: {subgroups}, s: {subgroups}}}}}
  state: {{redis: {{url: "REDIS"}}}}
  tiers: {{executors: EXECUTORS, cpu: 100m}}
  joiners: {{memory: 512Mi}}
  output: {{kafka: {{bootstrapServers: "{brokers}", topic: {name}-out, format: json}}}}
"""
ROWS = 5_000
READY_S = {0: 90, 1: 150}  # by executors: without, units run in their driver's pod
FIRST_RESULT_S, DELETED_S = 30, 60
RESIDENT_MAX = int(1.2 * GIB)  # of a tier: its drivers, with their units in them
SWEPT_S = 120
EXECUTORS_OF_ALL_TIERS = 4  # shuffler, dispatchers, and one for each of the two joiner units


@pytest.fixture(params=READY_S, ids="executors: {}".format)
def executors(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def query(kafka: KafkaServer, redis: RedisServer, executors: int, tmp_path: Path) -> KafkaQuery:
    template = MANIFEST.replace("REDIS", redis.url).replace("EXECUTORS", str(executors))
    return KafkaQuery(kafka, redis, tmp_path, template=template)


def addresses_of_its_service(kube: Kube, query: KafkaQuery) -> set[str]:
    name = f"query-{kube.object(f'joinquery/{query.name}')['status']['id']}"
    slices = kube.objects("endpointslices", f"--selector=kubernetes.io/service-name={name}")
    return {address for one in slices for endpoint in one["endpoints"] for address in endpoint["addresses"]}


def what_the_page_looks_at(name: str) -> list[list[str]]:
    page = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8").partition("## What to look at")[2]
    lines = page.partition("```sh\n")[2].partition("```")[0].replace("orders-offers", name).splitlines()
    commands = [shlex.split(line, comments=True) for line in lines]
    assert {command[0] for command in commands} == {"kubectl"} and len(commands) >= 4
    return [words for _, *words in commands]


def by_tier(drivers: Mapping[str, int]) -> dict[str, int]:
    """Of pods that are called query, id, tier, and more."""
    found: Counter[str] = Counter()
    for name, held in drivers.items():
        found[name.split("-")[2]] += held
    assert found.keys() == {"shuffler", "dispatcher", "joiner"}, drivers
    return found


def first_result_s(query: KafkaQuery) -> float:
    """How long it takes from now on, for a reader who is there."""
    began = time.monotonic()
    for message in query.messages(f"{query.name}-out"):
        took_s = time.monotonic() - began
        if message is not None or took_s > FIRST_RESULT_S:
            return took_s
    raise AssertionError("the reader ended")


def test_apply_ready_results_delete(kube: Kube, query: KafkaQuery, executors: int) -> None:
    rng = random.Random(5)
    keys = {side: [rng.randrange(ROWS) for _ in range(ROWS)] for side in ("r", "s")}
    began = time.monotonic()
    kube.apply(query.manifest.read_text())
    kube.wait(f"joinquery/{query.name}", "condition=Ready", 2 * READY_S[executors])
    ready_s = time.monotonic() - began
    for side, chosen in keys.items():
        query.produce_rows(side, chosen, 0)
    first_s = first_result_s(query)
    wanted = matches(keys["r"], keys["s"])
    found: Counter[tuple[int, int]] = query.results(wanted.total(), FIRST_RESULT_S)
    assert found == wanted, kube.story()
    kube.said("wait", "joinsubgroups", "--all", "--for=condition=Ready", "--timeout=30s")
    pods = kube.objects("pods", "--selector=biclique.dev/role=executor")
    assert len(pods) == executors * EXECUTORS_OF_ALL_TIERS
    drivers = memory_of(kube, "biclique.dev/role=driver")
    compiled = compiled_by(kube, query.name)
    pods += kube.objects("pods", "--selector=biclique.dev/role=driver")
    assert addresses_of_its_service(kube, query) == {pod["status"]["podIP"] for pod in pods}
    for command in what_the_page_looks_at(query.name):
        assert query.name in kube.said(*command), command
    own = str(kube.object(f"joinquery/{query.name}")["status"]["id"])
    began = time.monotonic()
    kube.said("delete", f"joinquery/{query.name}", f"--timeout={DELETED_S}s")
    deleted_s = time.monotonic() - began
    print(f"ready after {ready_s:.1f} s, first result {first_s:.1f} s later, deleted in {deleted_s:.1f} s")
    print("resident:", {name.split("-", 2)[2]: f"{held / GIB:.2f} GiB" for name, held in drivers.items()})
    assert ready_s <= READY_S[executors]
    assert first_s <= FIRST_RESULT_S
    assert deleted_s <= DELETED_S
    assert executors or max(by_tier(drivers).values()) <= RESIDENT_MAX, drivers
    assert compiled == {}
    deadline = time.monotonic() + SWEPT_S
    while left := not_swept(query.kafka.bootstrap, query.redis.url, query.name, own):
        assert time.monotonic() < deadline, left
        time.sleep(1)
    assert not objects_of_queries(kube)
