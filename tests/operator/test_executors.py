"""Executors are Spark's: what keeps them from beginning is named in the query's condition all the same, and goes when
it passes; and they and their driver know each other by a Secret that nobody else is told."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from biclique_operator.cluster import Refused, Unreachable
from biclique_operator.desired.names import SECRETS
from biclique_operator.observed import timestamp_of
from tests.operator.memory_cluster import MemoryCluster
from tests.operator.spark_stage import SparkStage
from tests.operator.stage import Clock, Operator, Stage
from tests.operator.surroundings import go_on

Raw = dict[str, Any]


def test_the_status_tells_how_many_run_of_those_that_are_asked_for() -> None:
    stage = SparkStage()
    assert all(
        (stage.driver(n)["executors"], stage.driver(n)["executorsRunning"]) == (1, 0) for n in ("shuffler", "0L0")
    )
    stage.is_running()
    assert all(stage.driver(name)["executorsRunning"] == 1 for name in ("shuffler", "dispatcher", "0L0", "0R0"))
    an_executor_is_lost(stage, "joiner-0l0-1")
    stage.settle()
    assert [stage.driver(name)["executorsRunning"] for name in ("shuffler", "0L0", "0R0")] == [1, 0, 1]
    assert "executorsRunning" not in Stage().is_running().driver("shuffler"), "where none is asked for"


def test_an_executor_that_finds_no_node_is_named_until_it_finds_one() -> None:
    stage = SparkStage()
    stage.drivers_begin()
    executor = stage.spark_makes("joiner-0l0-1")
    stage.kubelet.finds_no_node(executor, "0/1 nodes are available: 1 Insufficient memory.")
    status, reason, message = stage.named_within(30)
    assert (status, reason) == ("True", "Unschedulable")
    assert "joiner-0l0-1-exec-1 finds no node (0/1 nodes are available: 1 Insufficient memory.)" in message
    assert stage.condition("Ready")[:2] == ("False", "Unschedulable")
    stage.kubelet.runs(stage.cluster.get("Pod", "default", executor["metadata"]["name"]))
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"


def test_an_image_that_an_executor_cannot_have_is_named() -> None:
    stage = SparkStage()
    stage.drivers_begin()
    message = 'Back-off pulling image "nobody/has:it"'
    stage.kubelet.waits(stage.spark_makes("shuffler-1"), "ImagePullBackOff", message)
    assert stage.named_within(30)[:2] == ("True", "ImageNotFound")


def test_what_only_events_tell_of_an_executor() -> None:
    stage = SparkStage()
    stage.drivers_begin()
    executor = stage.spark_makes("dispatcher-1")
    about = {"generateName": "warning-", "namespace": "default"}
    stage.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": about,
            "involvedObject": {"kind": "Pod", "name": executor["metadata"]["name"], "namespace": "default"},
            "type": "Warning",
            "reason": "FailedMount",
            "message": 'MountVolume.SetUp failed for volume "secret-0" : secret "kafka-user" not found',
            "lastTimestamp": timestamp_of(stage.clock()),
        }
    )
    status, reason, message = stage.named_within(30)
    assert (status, reason) == ("True", "SecretMissing")
    assert "the Secret kafka-user is missing" in message


def test_a_quota_that_leaves_no_room_for_executors_is_named_until_it_does() -> None:
    """Spark writes the refusal down in its log, and nobody else hears of it."""
    stage = SparkStage()
    stage.drivers_begin()
    stage.cluster.quota = 4
    status, reason, message = stage.named_within(30)
    assert (status, reason) == ("True", "QuotaExceeded")
    assert message.startswith(f"an executor of {stage.id}-shuffler-1 is more than the namespace's quota allows")
    assert stage.condition("Ready")[:2] == ("False", "QuotaExceeded")
    stage.cluster.quota = None
    assert stage.named_within(15)[0] == "False"
    assert stage.reasons().count("QuotaExceeded") == 1, "one event for each decision"


def test_a_quota_that_became_too_small_for_an_executor_that_was_lost_is_named() -> None:
    stage = SparkStage().is_running()
    stage.clock.passes(3 * 24 * 3600)
    lost = stage.cluster.list("Pod", "default", {"biclique.dev/role": "executor"})[0]["metadata"]
    stage.cluster.quota = 7
    stage.cluster.remove("Pod", "default", lost["name"], lost["uid"])
    assert stage.named_within(30)[:2] == ("True", "QuotaExceeded")
    assert stage.condition("Ready")[0] == "True", "as its drivers say"


def test_a_refusal_that_stands_is_asked_about_more_and_more_rarely() -> None:
    stage = SparkStage().is_running()
    lost = stage.cluster.list("Pod", "default", {"biclique.dev/role": "executor"})[0]["metadata"]
    stage.cluster.quota = 7
    stage.cluster.remove("Pod", "default", lost["name"], lost["uid"])
    stage.trials.clear()
    assert stage.named_within(60)[1] == "QuotaExceeded"
    assert 3 <= len(stage.trials) <= 8
    stage.named_within(600)
    stage.trials.clear()
    stage.named_within(3600)
    assert 55 <= len(stage.trials) <= 62, "once a minute"
    stage.cluster.quota = None
    stage.kubelet.runs(stage.spark_makes(lost["ownerReferences"][0]["name"].partition(f"{stage.id}-")[2]))
    stage.settle()
    assert stage.condition("Degraded")[0] == "False", "the executor that is there tells at once"


def test_an_operator_that_takes_over_goes_on_saying_what_it_finds_refused() -> None:
    stage = SparkStage().is_running()
    stage.cluster.quota = 7
    an_executor_is_lost(stage, "joiner-0l0-1")
    stage.named_within(4 * 3600)
    stood = conditions(stage)
    told = stage.events()
    stage.operator = Operator(stage.cluster, stage.clock)
    stage.trials.clear()
    for _ in range(3):
        stage.named_within(20)
        assert conditions(stage) == stood
    assert stage.events() == told
    assert 1 <= len(stage.trials) <= 2, "as rarely as before"
    stage.operator = Operator(stage.cluster, stage.clock)
    stage.cluster.quota = 8
    stage.settle()
    assert stage.condition("Degraded")[0] == "False", "the first answer tells"


def test_an_operator_that_takes_over_takes_nothing_back_before_it_is_answered() -> None:
    stage = SparkStage().is_running()
    stage.cluster.quota = 7
    an_executor_is_lost(stage, "joiner-0l0-1")
    stage.named_within(600)
    stood, told, would_create = conditions(stage), stage.events(), stage.cluster.would_create

    def away(pod: Raw) -> None:
        raise Unreachable("Kubernetes answers 500: failed calling webhook")

    stage.cluster.would_create = away
    stage.operator = Operator(stage.cluster, stage.clock)
    stage.named_within(120)
    stage.cluster.would_create = would_create
    stage.named_within(60)
    assert (conditions(stage), stage.events()) == (stood, told)


def test_what_the_status_says_of_something_else_makes_no_refusal_older() -> None:
    """Of an operator that takes over while pods take turns."""
    stage = SparkStage().is_running()
    waits = stage.cluster.list("Pod", "default", {"biclique.dev/role": "executor"})[0]
    stage.kubelet.finds_no_node(waits, "0/1 nodes are available")
    stage.passes(30)
    assert stage.condition("Degraded")[1] == "Unschedulable"
    stage.cluster.quota = 7
    stage.cluster.remove("Pod", "default", waits["metadata"]["name"], waits["metadata"]["uid"])
    stage.operator = Operator(stage.cluster, stage.clock)
    stage.settle()
    assert stage.trials and stage.condition("Degraded")[0] == "False"


def conditions(stage: Stage) -> list[Raw]:
    return list(stage.status["conditions"])


def an_executor_is_lost(stage: Stage, driver: str) -> None:
    (lost,) = [one for one in executors(stage) if one["ownerReferences"][0]["name"].endswith(driver)]
    stage.cluster.remove("Pod", "default", lost["name"], lost["uid"])


def executors(stage: Stage) -> list[Raw]:
    return [pod["metadata"] for pod in stage.cluster.list("Pod", "default", {"biclique.dev/role": "executor"})]


def test_another_that_is_refused_is_named_as_soon_and_one_that_came_is_named_no_more() -> None:
    stage = SparkStage().is_running()
    stage.cluster.quota = 0
    an_executor_is_lost(stage, "dispatcher-1")
    assert f"an executor of {stage.id}-dispatcher-1 is more" in stage.named_within(3600)[2]
    an_executor_is_lost(stage, "shuffler-1")
    stage.trials.clear()
    stage.settle()
    assert len(stage.trials) == 2, "at once"
    assert f"an executor of {stage.id}-shuffler-1 is more" in stage.named_within(30)[2]
    stage.named_within(3600)
    stage.cluster.quota = None
    stage.kubelet.runs(stage.spark_makes("shuffler-1"))
    stage.cluster.quota = 0
    stage.settle()
    assert f"an executor of {stage.id}-dispatcher-1 is more" in stage.condition("Degraded")[2]


def test_one_that_is_refused_only_when_another_has_been_for_long_is_named_as_soon() -> None:
    stage = SparkStage().is_running()
    would_create, may = stage.cluster.would_create, {"shuffler-1"}

    def policy(pod: Raw) -> None:
        if not any(driver in pod["metadata"]["name"] for driver in may):
            raise Refused(403, "a policy says no")
        would_create(pod)

    stage.cluster.would_create = policy
    an_executor_is_lost(stage, "dispatcher-1")
    an_executor_is_lost(stage, "shuffler-1")
    assert f"an executor of {stage.id}-dispatcher-1 was refused" in stage.named_within(3600)[2]
    may.clear()
    assert f"an executor of {stage.id}-shuffler-1 was refused" in stage.named_within(30)[2]


def test_an_executor_that_waits_for_one_that_is_on_its_way_out_is_nothing_amiss() -> None:
    """Under a quota that just fits, as pods take turns."""
    stage = SparkStage().is_running()
    lost = stage.cluster.list("Pod", "default", {"biclique.dev/role": "executor"})[0]["metadata"]
    stage.cluster.quota = 7
    stage.cluster.remove("Pod", "default", lost["name"], lost["uid"])
    for _ in range(5):
        stage.passes(1)
        assert stage.trials and stage.condition("Degraded")[0] == "False"
    stage.cluster.quota = 8
    for _ in range(10):
        stage.passes(3)
        assert stage.condition("Degraded")[0] == "False"
    assert "QuotaExceeded" not in stage.reasons()


def test_a_webhook_that_knows_no_dry_runs_says_nothing_of_a_quota() -> None:
    stage = SparkStage()
    stage.drivers_begin()

    def refused(pod: Raw) -> None:
        raise Refused(400, 'admission webhook "sidecars.example" does not support dry run')

    stage.cluster.would_create = refused
    assert stage.named_within(30)[0] == "False"


def test_a_webhook_that_is_down_keeps_nobody_from_being_looked_after() -> None:
    stage = SparkStage().is_running()
    lost = stage.cluster.list("Pod", "default", {"biclique.dev/role": "executor"})[0]["metadata"]
    stage.cluster.remove("Pod", "default", lost["name"], lost["uid"])

    def away(pod: Raw) -> None:
        raise Unreachable("Kubernetes answers 500: failed calling webhook")

    stage.cluster.would_create = away
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 4, "no")
    stage.settle()
    stage.passes(5)
    assert "joiner-0l0-2" in stage.pods()


def test_a_template_is_left_alone_where_what_it_mounts_may_not_be_made() -> None:
    stage = SparkStage().is_running()
    place = "ConfigMap", "default", f"{stage.id}-spark-joiner"
    stage.cluster.remove("Secret", "default", f"{stage.id}-executors", secret_uid(stage))
    stage.cluster.remove(*place, stage.cluster.get(*place)["metadata"]["uid"])

    def forbidden(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("create", "Secret"):
            raise Refused(403, "secrets is forbidden")

    stage.cluster.before_write = forbidden
    stage.settle()
    assert stage.cluster.get(*place) is None
    assert "secrets is forbidden" in stage.condition("Degraded")[2]


def test_while_pods_take_turns_an_executor_that_waits_for_a_moment_is_nothing_amiss() -> None:
    stage = SparkStage()
    stage.drivers_begin()
    stage.kubelet.finds_no_node(stage.spark_makes("shuffler-1"), "0/1 nodes are available: 1 Insufficient cpu.")
    stage.clock.passes(2)
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"


def test_who_has_all_its_executors_asks_for_none() -> None:
    stage = SparkStage().is_running()
    stage.trials.clear()
    for _ in range(5):
        stage.passes(60)
    assert stage.trials == []


def test_executors_of_a_driver_that_has_ended_are_nobodys_trouble() -> None:
    stage = SparkStage().is_running()
    executor = stage.cluster.list("Pod", "default", {"biclique.dev/role": "executor"})[0]
    stage.kubelet.finds_no_node(executor, "0/1 nodes are available")
    (owner,) = executor["metadata"]["ownerReferences"]
    driver = stage.cluster.get("Pod", "default", owner["name"])
    stage.kubelet.ends(driver, 0, "stopped as asked")
    stage.passes(10)
    assert stage.condition("Degraded")[1] != "Unschedulable"


# --- by what they know each other ------------------------------------------------------------------------------------


def secret_uid(stage: Stage) -> str:
    found = secret_of(stage)
    assert found is not None
    return str(found["metadata"]["uid"])


def secret_of(stage: Stage) -> Raw | None:
    found = stage.cluster.get("Secret", "default", f"{stage.id}-executors")
    return None if found is None else dict(found)


def mounted(pod: Raw) -> list[str]:
    """Secrets that are mounted where Spark is told to read."""
    spec = pod["spec"]
    at = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    return [
        each["secret"]["secretName"]
        for each in spec["volumes"]
        if "secret" in each and at[each["name"]] == "/etc/biclique/authentication"
    ]


def test_a_query_with_executors_has_a_secret_of_its_own() -> None:
    one, other = SparkStage(), SparkStage()
    values = [base64.b64decode(secret["data"]["secret"]) for stage in (one, other) if (secret := secret_of(stage))]
    assert len(set(values)) == 2 and {len(value) for value in values} == {32}
    assert [mounted(pod) for pod in one.pods().values()] == [[f"{one.id}-executors"]] * 4
    for tier in ("shuffler", "dispatcher", "joiner"):
        told = one.cluster.get("ConfigMap", "default", f"{one.id}-spark-{tier}")
        assert told is not None
        conf = told["data"]["spark-defaults.conf"]
        assert "spark.authenticate true\nspark.authenticate.secret.file /etc/biclique/authentication/secret\n" in conf
        assert f"secretName: {one.id}-executors" in told["data"]["executor.yaml"]


def test_its_value_stands_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(0)
    stage = SparkStage().is_running()
    secret = secret_of(stage)
    assert secret is not None
    value = secret["data"]["secret"]
    everything = [obj for (kind, *_), obj in stage.cluster._objects.items() if kind != "Secret"]
    assert value not in json.dumps(everything)
    assert value not in caplog.text


def test_it_stays_as_it_is_over_restarts_and_is_made_anew_where_it_was_deleted() -> None:
    stage = SparkStage().is_running()
    before = secret_of(stage)
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "its Java has ended")
    stage.settle()
    stage.passes(5)
    assert "shuffler-2" in stage.pods()
    assert secret_of(stage) == before is not None
    stage.cluster.remove("Secret", "default", f"{stage.id}-executors", before["metadata"]["uid"])
    stage.kubelet.ends(stage.pods()["shuffler-2"], 4, "its Java has ended")
    stage.settle()
    stage.passes(10)
    assert mounted(stage.pods()["shuffler-3"]) == [f"{stage.id}-executors-2"]
    assert secret_of(stage) is None, "nodes may know the old value of that name"


def test_where_it_was_lost_all_come_to_share_another_one() -> None:
    """A driver that has read the old one would know no executor that mounts the new one."""
    stage = SparkStage().is_running()
    stage.cluster.remove("Secret", "default", f"{stage.id}-executors", secret_uid(stage))
    stage.settle()
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-1"], "nobody needs it now"
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "its Java has ended")
    alive = []
    for _ in range(12):
        stage.passes(6)
        go_on(stage)
        alive.append(len(stage.alive()))
    stage.settle()
    assert min(alive) == 3, "one at a time"
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-2", "joiner-0r0-2", "shuffler-2"]
    second = f"{stage.id}-executors-2"
    assert [mounted(stage.pods()[name]) for name in stage.alive()] == [[second]] * 4
    told = stage.cluster.get("ConfigMap", "default", f"{stage.id}-spark-joiner")
    assert f"secretName: {second}" in told["data"]["executor.yaml"]
    assert [one["metadata"]["name"] for one in stage.cluster.list("Secret", "default")] == [second]
    assert stage.condition("Ready")[0] == "True" and stage.condition("Progressing")[1] == "Stable"
    said = [message for reason, message in stage.events() if reason == "DriverStopped"]
    assert sum("was lost, and is another one now" in message for message in said) == 3


def test_one_that_waits_for_a_secret_that_was_lost_is_told_why_it_is_made_anew() -> None:
    stage = SparkStage()
    stage.cluster.remove("Secret", "default", f"{stage.id}-executors", secret_uid(stage))
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "its Java has ended")
    stage.settle()
    stage.passes(10)
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-2", "joiner-0r0-2", "shuffler-2"]
    said = [message for reason, message in stage.events() if reason == "DriverStopped"]
    assert len(said) == 3 and all("the Secret that it shares with its executors was lost" in each for each in said)


def test_a_query_that_an_older_operator_made_has_it_before_its_executors_are_told_to_mount_it() -> None:
    """A driver that runs reads the template for each executor that it asks for."""
    stage = SparkStage().is_running()
    before = secret_of(stage)
    assert before is not None
    stage.cluster.remove("Secret", "default", before["metadata"]["name"], before["metadata"]["uid"])
    silent = {"metadata": {"annotations": {SECRETS: None}}}
    for tier in ("shuffler", "dispatcher", "joiner"):
        older = {**silent, "data": {"executor.yaml": "kind: Pod"}}
        stage.cluster.merge("ConfigMap", "default", f"{stage.id}-spark-{tier}", older)
    for pod in stage.pods().values():
        stage.cluster.merge("Pod", "default", pod["metadata"]["name"], silent)
    had_it: list[bool] = []

    def looked(verb: str, kind: str, name: str) -> None:
        if verb == "apply":
            had_it.append(secret_of(stage) is not None)

    stage.cluster.before_write = looked
    stage.settle()
    assert had_it == [True] * 3
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-1"]


def test_where_it_may_not_be_made_the_query_says_so_until_it_may() -> None:
    """As after an upgrade where somebody else manages the operator's rights."""
    may: list[bool] = []

    class NotYet(MemoryCluster):
        def create(self, desired: Raw) -> Raw:
            if desired["kind"] == "Secret" and not may:
                raise Refused(403, 'secrets is forbidden: cannot create resource "secrets"')
            return super().create(desired)

    clock = Clock()
    stage = SparkStage(NotYet(clock), clock)
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "PodRefused")
    assert 'cannot create resource "secrets"' in message
    assert stage.pods() == {}
    may.append(True)
    stage.passes(10)
    assert len(stage.pods()) == 4 and secret_of(stage) is not None
    assert stage.condition("Degraded")[0] == "False"


def test_where_it_may_not_be_read_the_query_says_so_and_what_runs_runs_on() -> None:
    stage = SparkStage().is_running()
    get = stage.cluster.get

    def forbidden(kind: str, *place: Any) -> Any:
        if kind == "Secret":
            raise Refused(403, 'secrets is forbidden: cannot get resource "secrets"')
        return get(kind, *place)

    stage.cluster.get = forbidden
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "its Java has ended")
    stage.settle()
    stage.passes(5)
    assert 'cannot get resource "secrets"' in stage.condition("Degraded")[2]
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1"]


def test_a_query_without_executors_needs_none() -> None:
    stage = Stage().is_running()
    assert secret_of(stage) is None
    assert [mounted(pod) for pod in stage.pods().values()] == [[]] * 4
