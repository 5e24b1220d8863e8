"""The operator on the real API server: what the one in memory may have got wrong. No node runs pods, so the kubelet is
played here too."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import time
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from biclique_operator.caches import QueryKey
from biclique_operator.desired.all import KINDS
from infra import processes
from infra.cluster.binaries import program
from infra.cluster.control_plane import answers_http
from tests.operator.conftest import WatchedCluster
from tests.operator.manifests import joinquery, spec
from tests.operator.process import operator_process
from tests.operator.scenes import (
    WRITES_MAX,
    a_deletion_in_the_middle_of_a_roll_ends,
    a_stale_cache_decides_nothing,
    an_edit_in_the_middle_of_a_roll_is_followed,
    creation_of_all_kinds,
    deletion,
    deletion_of_all_kinds,
    ends_alike_wherever_it_is_killed,
    failure_of_a_merger_with_executors,
    played_to_its_end,
    roll,
    suspension,
    two_at_once_end_alike,
)
from tests.operator.spark_stage import SparkStage
from tests.operator.stage import Stage
from tests.unit.chart.test_files import row_of
from tests.unit.chart.test_files import told as documented

Raw = dict[str, Any]
QUERIES = 200
pytestmark = pytest.mark.slow


def test_a_query_gets_everything_runs_and_goes(new_stage: Callable[[], Stage]) -> None:
    stage = new_stage().is_running()
    kinds = sorted(kind for kind, name in stage.everything() if stage.id in name)
    assert kinds.count("Pod") == 4
    assert kinds.count("JoinSubgroup") == 2
    assert {*KINDS} <= {*kinds}
    assert stage.status["units"] == "2/2"
    played_to_its_end(stage)
    before = stage.everything()
    stage.settle()
    assert stage.everything() == before


def test_an_unchanged_query_costs_no_write_and_little_work(new_stage: Callable[[], Stage]) -> None:
    stage = new_stage().is_running()
    stage.operator.list_everything(stage.key.namespace)
    writes: list[str] = []
    stage.cluster.before_write = lambda verb, kind, name: writes.append(f"{verb} {kind}")
    took = []
    for _ in range(5):
        began = time.process_time()
        stage.operator.controller.look(stage.key)
        took.append(time.process_time() - began)
    print(f"a look at an unchanged query: {min(took) * 1000:.1f} ms of work")
    assert writes == []
    assert min(took) < 0.05


@pytest.mark.parametrize(
    "scene",
    [
        creation_of_all_kinds,
        roll,
        suspension,
        failure_of_a_merger_with_executors,
        deletion,
        deletion_of_all_kinds,
    ],
    ids=lambda scene: scene.__name__,
)
def test_killed_before_any_write_it_comes_to_the_same_end(
    scene: Callable[[Stage], None], new_stage: Callable[[], Stage]
) -> None:
    ends_alike_wherever_it_is_killed(scene, new_stage)


def test_two_operators_at_once_come_to_the_same_end(new_stage: Callable[[], Stage]) -> None:
    """Before some of the writes; in memory before each, and in other scenes, too."""
    assert two_at_once_end_alike(roll, new_stage, range(1, WRITES_MAX, 9)) > 1


def test_an_edit_in_the_middle_of_a_roll_is_followed(new_stage: Callable[[], Stage]) -> None:
    an_edit_in_the_middle_of_a_roll_is_followed(new_stage())


def test_a_deletion_in_the_middle_of_a_roll_ends(new_stage: Callable[[], Stage]) -> None:
    a_deletion_in_the_middle_of_a_roll_ends(new_stage())


def test_a_stale_cache_decides_nothing(new_stage: Callable[[], Stage]) -> None:
    a_stale_cache_decides_nothing(new_stage())


def test_a_change_is_followed_and_a_refused_one_touches_nothing(new_stage: Callable[[], Stage]) -> None:
    stage = new_stage().is_running()
    stage.change(joiners={"memory": "3Gi"})
    played_to_its_end(stage)
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-2", "joiner-0r0-2", "shuffler-1"]
    before = {key: version for key, version in stage.everything().items() if key[0] != "JoinQuery"}
    stage.change(sql=spec()["sql"].replace("o.price = f.price", "o.price = f.price AND o.id < f.id"))
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "ChangeRefused")
    assert {key: version for key, version in stage.everything().items() if key[0] != "JoinQuery"} == before


def test_a_suspended_query_rests_and_comes_back(new_stage: Callable[[], Stage]) -> None:
    stage = new_stage().is_running()
    stage.change(suspend=True)
    played_to_its_end(stage)
    assert stage.pods() == {}
    assert stage.condition("Suspended")[:2] == ("True", "Suspended")
    stage.change(suspend=False)
    played_to_its_end(stage)
    assert stage.condition("Ready")[0] == "True"
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-2", "joiner-0r0-2", "shuffler-2"]


def test_what_kubectl_scale_asks_for_is_held(new_stage: Callable[[], Stage]) -> None:
    stage = new_stage().is_running()
    name = f"{stage.id}-0l0"
    path = f"apis/biclique.dev/v1alpha1/namespaces/{stage.key.namespace}/joinsubgroups/{name}/scale"
    stage.cluster._call("PATCH", path, (), {"spec": {"replicas": 3}}, "application/merge-patch+json")
    stage.settle()
    assert stage.condition("ScalingActive")[:2] == ("False", "NumberHeld")
    subgroup = stage.cluster.get("JoinSubgroup", stage.key.namespace, name)
    assert subgroup is not None
    assert (subgroup["spec"]["replicas"], subgroup["status"]["replicas"]) == (3, 1)
    assert len(stage.alive()) == 4


def test_a_deleted_query_goes_and_what_it_leaves_is_noted(new_stage: Callable[[], Stage]) -> None:
    stage = new_stage().is_running()
    prefix = stage.id
    stage.delete()
    for _ in range(6):
        stage.operator.look(stage.key)
        stage.clock.passes(5)
    assert stage.cluster.get("JoinQuery", *stage.key) is None
    noted = stage.cluster.get("ConfigMap", "biclique-system", "biclique-leftovers")
    assert noted is not None and prefix in noted["data"]


def test_without_an_operator_a_deleted_query_waits_and_is_let_go_as_the_page_says(
    kubeconfig: Path, new_stage: Callable[[], Stage]
) -> None:
    stage = new_stage().is_running()
    page = (Path(__file__).parents[2] / "docs/kubernetes.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"`(kubectl patch joinquery NAME [^`]+)`", page)
    kubectl, *words = shlex.split(command.replace("NAME", stage.key.name))
    found = stage.operator.query(stage.key)
    stage.cluster.remove("JoinQuery", *stage.key, found["metadata"]["uid"])
    assert stage.cluster.get("JoinQuery", *stage.key) is not None
    where = ["--kubeconfig", str(kubeconfig), "--namespace", stage.key.namespace]
    subprocess.run([str(program(kubectl)), *words, *where], check=True, capture_output=True, timeout=60)
    assert stage.cluster.get("JoinQuery", *stage.key) is None


def test_a_quota_without_room_for_executors_is_named_until_there_is_some(new_stage: Callable[[], Stage]) -> None:
    """By a dry run, since Spark tells nobody; what is used is counted by a controller, which is played here."""
    empty = new_stage()
    stage = SparkStage(empty.cluster, empty.clock, empty.key.namespace)
    stage.drivers_begin()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"
    quota = stage.cluster.limit_pods(stage.key.namespace, 4)
    # What the server knows of a quota is some moments old.
    wait_until(lambda: stage.named_within(10)[:2] == ("True", "QuotaExceeded"), 20, "it is named")
    message = stage.condition("Degraded")[2]
    assert "exceeded quota: few, requested: pods=1, used: pods=4, limited: pods=4" in message
    stage.cluster.lift(quota)
    wait_until(lambda: stage.named_within(15)[0] == "False", 20, "it has passed")
    assert SparkStage.is_running(stage).trials[-1].endswith("-exec-trial")


# --- as a process ----------------------------------------------------------------------------------------------------


def operator(
    kubeconfig: Path, folder: Path, watched: str, metrics_port: int | None = None
) -> AbstractContextManager[subprocess.Popen[bytes]]:
    """In a namespace of its own, so that no other test's queries are its affair."""
    told = {"POD_NAMESPACE": watched, "BICLIQUE_WATCH_NAMESPACE": watched}
    return operator_process(kubeconfig, folder, told | ({} if metrics_port is None else metrics_at(metrics_port)))


def wait_until(holds: Callable[[], bool], within_s: float, what: str, look_every_s: float = 0.2) -> float:
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < within_s, f"{what}: not within {within_s} s"
        time.sleep(look_every_s)
    return time.monotonic() - began


def pods_of(cluster: WatchedCluster, key: QueryKey) -> int:
    return len(cluster.list("Pod", key.namespace, {"biclique.dev/query": key.name}))


def has_status(query: Raw) -> bool:
    return "observedGeneration" in (query.get("status") or {})


def holder(cluster: WatchedCluster, namespace: str) -> str:
    lease = cluster.get("Lease", namespace, "biclique-operator")
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "")


OURS = "biclique_operator_"


def metrics_at(port: int) -> dict[str, str]:
    return {
        "OTEL_METRICS_EXPORTER": "prometheus",
        "OTEL_EXPORTER_PROMETHEUS_HOST": "127.0.0.1",
        "OTEL_EXPORTER_PROMETHEUS_PORT": str(port),
    }


def shown(port: int) -> dict[str, dict[tuple[str, ...], float]]:
    """What Prometheus would find there: by name, and by the labels' values in the order of the labels' names. Names and
    labels are those of docs/metrics.md."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as page:
        families = [*text_string_to_metric_families(page.read().decode())]
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for sample in (sample for family in families for sample in family.samples if family.name.startswith(OURS)):
        labels = {name: value for name, value in sorted(sample.labels.items()) if not name.startswith("otel_")}
        assert sample.name in documented() and labels.keys() == row_of(sample.name)[0], sample
        found.setdefault(sample.name.removeprefix(OURS), {})[*labels.values()] = sample.value
    return found


def one_tells_what_it_did_and_the_other_that_it_did_nothing(first: int, second: int) -> None:
    """Of one query, made a moment ago."""
    one, two = shown(first), shown(second)
    assert {OURS + name for name in one} == {name for name in documented() if name.startswith(OURS)}
    assert (one["leading"], two["leading"]) == ({(): 1.0}, {(): 0.0})
    wrote = one["writes_total"]
    assert wrote["Pod", "create"] == 4.0
    assert (wrote["JoinQuery", "finalizers"], wrote["NetworkPolicy", "apply"]) == (1.0, 1.0)
    assert {kind for kind, _ in two.get("writes_total", ())} <= {"ConfigMap", "Lease"}, "signs of life"
    looks = one["reconcile_duration_seconds_count"]
    assert looks["changed",] >= 2 and looks.keys() <= {("changed",), ("unchanged",), ("conflict",)}
    assert "reconcile_duration_seconds_count" not in two
    # Each had waited for its turn, and so had signs of life.
    waited = one["queue_wait_seconds_count"][()]
    assert waited >= sum(looks.values()) > 0
    assert 0.0 <= one["queue_wait_seconds_sum"][()] < 5.0 * waited
    assert one["state_duration_seconds_count"] == {("New", "Starting"): 1.0}
    for each in (one, two):
        assert each["queries"] == {("Starting",): 1.0}
        assert each["queue_depth"] == {(): 0.0}, "nothing is late; of who stands by all would be"
        assert 0.0 <= each["resync_age_seconds"][()] < 60.0
        assert 0.0 <= each["unready_age_seconds"][()] < 60.0
    assert (one["canary_age_seconds"].keys(), two["canary_age_seconds"].keys()) == (
        {("queue",), ("watch",)},
        {("watch",)},
    )


def test_who_stands_by_takes_over(kubeconfig: Path, cluster: WatchedCluster, namespace: str, tmp_path: Path) -> None:
    first, second = processes.free_port(), processes.free_port()
    with operator(kubeconfig, tmp_path / "one", namespace, first) as one:
        wait_until(lambda: holder(cluster, namespace).startswith("one-"), 40, "the first one leads")
        with operator(kubeconfig, tmp_path / "two", namespace, second) as two:
            cluster.create(joinquery("counted", namespace))
            wait_until(lambda: pods_of(cluster, QueryKey(namespace, "counted")) == 4, 40, "it is looked after")
            wait_until(lambda: answers_http(f"http://127.0.0.1:{second}/metrics"), 40, "the second one stands by")
            wait_until(lambda: shown(second).get("queries") == {("Starting",): 1.0}, 40, "the second one heard of it")
            one_tells_what_it_did_and_the_other_that_it_did_nothing(first, second)
            assert holder(cluster, namespace).startswith("one-")
            one.send_signal(signal.SIGKILL)
            cluster.create(joinquery("after-a-kill", namespace))
            key = QueryKey(namespace, "after-a-kill")
            wait_until(lambda: pods_of(cluster, key) == 4, 40, "the second one took over from one that was killed")
            third = processes.free_port()
            with operator(kubeconfig, tmp_path / "three", namespace, third):
                wait_until(lambda: answers_http(f"http://127.0.0.1:{third}/metrics"), 40, "the third one stands by")
                wait_until(lambda: len(shown(third).get("queries", {})) > 0, 40, "the third one heard of them")
                two.send_signal(signal.SIGTERM)
                assert two.wait(30) == 0
                assert not holder(cluster, namespace).startswith("two-"), (
                    "it lets go, and nobody waits for its Lease's end"
                )
                cluster.create(joinquery("after-an-end", namespace))
                key = QueryKey(namespace, "after-an-end")
                wait_until(lambda: pods_of(cluster, key) == 4, 40, "the third one took over from one that ended")


@pytest.mark.alone
def test_two_hundred_queries_in_a_minute(
    kubeconfig: Path, cluster: WatchedCluster, namespace: str, tmp_path: Path
) -> None:
    for number in range(QUERIES):
        cluster.create(joinquery(f"query-{number}", namespace))
    with operator(kubeconfig, tmp_path / "many", namespace) as process:
        began = time.monotonic()
        selector = {"biclique.dev/role": "driver"}
        # Hundreds of pods are work for whoever asks, too: that is not done all the time.
        wait_until(
            lambda: len(cluster.list("Pod", namespace, selector)) == 4 * QUERIES, 120, "every driver is made", 2.0
        )
        wait_until(lambda: all(map(has_status, cluster.list("JoinQuery", namespace))), 60, "every query has a status")
        took_s = time.monotonic() - began
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak_mb = int(status.split("VmHWM:")[1].split()[0]) / 1000
        print(f"{QUERIES} queries in {took_s:.0f} s, {peak_mb:.0f} MB")
        assert took_s < 60
        assert peak_mb < 300
