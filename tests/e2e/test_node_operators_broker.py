"""What befalls whoever a query stands upon while both its sides flow: its node is drained, the kubelet is gone for a
minute, Kafka does not answer, of two operators one does not know that he leads no more and the other hears of nothing.
It is named in a condition, it passes, and what is read is what the oracle says. Last of all the query is deleted in the
middle of a roll."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.stage import PAIRS
from tests.e2e.infrastructure import Kubelet
from tests.e2e.kube import Kube
from tests.e2e.operators import leader, leading_pod, standing_by, until_leads
from tests.e2e.under_fault import UnderFault, beside

pytestmark = pytest.mark.long
NAMED_S = 30.0  # within which a condition says what is amiss
PASSED_S = 60.0  # within which it says so no more
DRAINED_S = 420.0
HELD_S = 8.0  # a drain that was refused asks again after 5 s
REFUSED = "Cannot evict pod as it would violate the pod's disruption budget"
KUBELET_S, ALONE_S = 60.0, 45.0
BROKER_S = 30.0
JOINS_ON_S = 30.0
TAKEN_OVER_S, GIVEN_BACK_S = 20.0, 10.0
ROLLED_S = 180.0


@pytest.fixture(scope="module")
def query(cluster: Kube, operator: Kube, kafka: KafkaServer, redis: RedisServer) -> Iterator[UnderFault]:
    with cluster.in_its_own() as kube:
        made = UnderFault(kube, beside(kafka, redis), PAIRS, executors=0)
        made.begin()
        yield made
        made.close()


def test_a_drain_takes_one_driver_at_a_time(query: UnderFault, capsys: pytest.CaptureFixture[str]) -> None:
    """By kubectl itself, which asks again where the budget says no. With its only node cordoned the query has to do
    without the driver that went first, and the others stay; then the node may be used again, and all of them go."""
    drivers = query.drivers()
    node = query.kube.object("pod", drivers[0])["spec"]["nodeName"]
    words = ("drain", node, f"--pod-selector={query.selector}", "--force", "--delete-emptydir-data")
    with ThreadPoolExecutor(1) as pool, query.strikes("drained", "all drivers") as noted:
        drain = pool.submit(query.kube.tried, *words, f"--timeout={DRAINED_S:.0f}s", limit_s=DRAINED_S + 10)
        try:
            noted_s = query.until("Degraded", "Unschedulable", "finds no node", 2 * NAMED_S)
            time.sleep(HELD_S)
            assert len(query.drivers()) == len(drivers) - 1, query.kube.story()
        finally:
            query.kube.said("uncordon", node)
        drained = drain.result()
        said = drained.stdout + drained.stderr
        assert drained.returncode == 0 and REFUSED in said, f"{said}\n{query.kube.story()}"
        noted.append(f"no node named after {noted_s:.0f} s; {said.count(REFUSED)} refused by the budget")
    query.recovers()
    assert not set(query.drivers()) & set(drivers)
    judged = query.judged()
    with capsys.disabled():
        print(query.told(judged))


def test_a_node_whose_kubelet_is_gone_for_a_minute(
    query: UnderFault, kubelet: Kubelet, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its pods run on. One that is deleted meanwhile by force runs on, too, as a zombie beside whoever comes next."""
    with query.strikes("kubelet killed, back after 60 s", "node") as noted:
        kubelet.kill()
        began = time.monotonic()
        noted.append(f"joined on after {query.joins_on(JOINS_ON_S):.1f} s")
        time.sleep(max(0.0, began + ALONE_S - time.monotonic()))
        (zombie,) = query.pods()["driver", "dispatcher"]
        query.kube.said("delete", "pod", zombie, "--wait=false", "--grace-period=0", "--force")
        noted.append("the dispatchers' driver deleted after 45 s")
        time.sleep(max(0.0, began + KUBELET_S - time.monotonic()))
        kubelet.start()
    query.recovers()
    judged = query.judged()
    with capsys.disabled():
        print(query.told(judged))


def test_a_kafka_that_does_not_answer_is_named_until_it_does(
    query: UnderFault, broker: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    with query.strikes("stands still", "kafka") as noted:
        began = time.monotonic()
        broker.send_signal(signal.SIGSTOP)
        try:
            named_s = query.until("Degraded", "DriverWaits", "Kafka", 2 * NAMED_S)
            noted.append(f"named after {named_s:.0f} s")
            time.sleep(max(0.0, began + BROKER_S - time.monotonic()))
        finally:
            broker.send_signal(signal.SIGCONT)
    query.until("Degraded", "NothingAmiss", "", PASSED_S)
    query.recovers()
    judged = query.judged()
    with capsys.disabled():
        print(query.told(judged))
    assert named_s <= NAMED_S


def test_a_leader_that_stood_still_and_a_successor_that_hears_of_nothing(
    query: UnderFault, operator: Kube, kubelet: Kubelet, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The leader stops in the midst of a roll, and goes on when another leads, whose watches have been silent since the
    roll began. So neither was told that the manifest has been changed back, and by what they know each would make what
    nobody wants any more, and roll what should be left alone."""
    drivers, wanted = query.drivers(), {driver_of(name): digest for name, digest in made_of(query).items()}
    pod = leading_pod(operator)
    outside = tmp_path / "outside"
    with standing_by(operator, outside) as relay:
        with query.strikes("stands still in a roll until another leads, who is deaf", "operator") as noted:
            query.change(joiners={"memory": "640Mi"})
            query.until("Progressing", "Rolling", "", NAMED_S)
            with kubelet.stops_what_runs(pod["metadata"]["uid"]):
                known = made_of(query)
                relay.deafen()
                query.change(joiners={"memory": "512Mi"})
                taken_over_s = until_leads(operator, outside.name, 2 * TAKEN_OVER_S)
            made, began = made_of(query), time.monotonic()
            while query.kube.condition(query.name, "Progressing")[1] != "Stable":
                assert time.monotonic() < began + ROLLED_S, query.kube.story()
                made |= made_of(query)
            rolled_s = time.monotonic() - began
            noted.append(f"another leads after {taken_over_s:.0f} s; the roll is over {rolled_s:.0f} s later")
        assert leader(operator).startswith(outside.name), "who has gone on knows that he leads no more"
        relay.hear()
        query.recovers()
    (rolled,) = {*drivers} - {*query.drivers()}
    since = {(driver_of(name), digest) for name, digest in made.items() if name not in known}
    assert since == {(driver_of(rolled), wanted[driver_of(rolled)])}, f"{made} since {known}"
    assert "joiner" in rolled
    until_leads(operator, pod["metadata"]["name"], GIVEN_BACK_S)
    judged = query.judged()
    with capsys.disabled():
        print(query.told(judged))
    assert taken_over_s <= TAKEN_OVER_S


def made_of(query: UnderFault) -> dict[str, str]:
    """Pods of drivers, those that end among them, with a digest of all that their part of the manifest said."""
    pods = query.kube.objects("pods", f"--selector={query.selector},biclique.dev/role=driver")
    return {pod["metadata"]["name"]: pod["metadata"]["annotations"]["biclique.dev/spec-hash"] for pod in pods}


def driver_of(pod: str) -> str:
    """Without the number of its attempt."""
    return pod.rpartition("-")[0]


def test_a_query_that_is_deleted_in_the_midst_of_a_roll(query: UnderFault, capsys: pytest.CaptureFixture[str]) -> None:
    """The last of these tests: it is theirs that goes."""
    query.change(tiers={"cpu": "110m"})
    query.until("Progressing", "Rolling", "", NAMED_S)
    told = query.deleted()
    with capsys.disabled():
        print(f"\n{told}")
