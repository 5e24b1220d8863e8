"""What keeps a pod from beginning is named in a condition, with what to do, and goes when it passes."""

from __future__ import annotations

from typing import Any

import pytest

from biclique_operator.cluster import Refused, Unreachable
from biclique_operator.observed import timestamp_of
from tests.operator.manifests import joinquery
from tests.operator.stage import Stage, created

Raw = dict[str, Any]


def warned(stage: Stage, pod: str, reason: str, message: str, kind: str = "Warning") -> None:
    """As the kubelet tells it."""
    about = stage.pods()[pod]["metadata"]
    stage.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "warning-", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": about["name"], "namespace": "default"},
            "type": kind,
            "reason": reason,
            "message": message,
            "lastTimestamp": timestamp_of(stage.clock()),
        }
    )


@pytest.mark.parametrize(
    ("reason", "message", "named", "said"),
    [
        (
            "FailedMount",
            'MountVolume.SetUp failed for volume "secret-0" : secret "kafka-user" not found',
            "SecretMissing",
            "the Secret kafka-user is missing",
        ),
        (
            "FailedMount",
            'Unable to attach or mount volumes: persistentvolumeclaim "joins" not found',
            "VolumeMissing",
            "the PersistentVolumeClaim joins is missing: create it",
        ),
        ("FailedMount", "MountVolume.SetUp failed for volume x : timed out", "MountFailed", "timed out"),
        ("FailedCreatePodSandBox", "no address is left", "ContainerFailed", "no address is left"),
    ],
)
def test_what_only_events_tell(reason: str, message: str, named: str, said: str) -> None:
    stage = created()
    warned(stage, "shuffler-1", reason, message)
    stage.passes(10)
    assert stage.condition("Degraded")[:2] == ("True", named)
    assert said in stage.condition("Degraded")[2]
    assert stage.condition("Ready")[1] == named
    stage.run_pods()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"
    assert stage.condition("Ready")[0] == "True"


def test_a_warning_that_has_passed_is_none_before_the_pod_runs() -> None:
    stage = created()
    warned(stage, "shuffler-1", "FailedMount", 'MountVolume.SetUp failed for volume "s" : secret "kafka" not found')
    stage.passes(10)
    assert stage.condition("Degraded")[:2] == ("True", "SecretMissing")
    warned(stage, "shuffler-1", "Pulling", 'Pulling image "biclique-spark:test"', "Normal")
    stage.passes(5)
    assert stage.condition("Degraded")[0] == "False"
    assert stage.condition("Ready")[:2] == ("False", "Starting")


def test_a_warning_that_comes_again_and_again_is_one() -> None:
    stage = created()
    for _ in range(4):
        warned(stage, "shuffler-1", "FailedCreatePodSandBox", "no address is left")
        stage.passes(5)
        warned(stage, "shuffler-1", "SandboxChanged", "it will be killed and re-created", "Normal")
        stage.passes(5)
        assert stage.condition("Degraded")[:2] == ("True", "ContainerFailed")
    assert stage.reasons().count("ContainerFailed") == 1


@pytest.mark.parametrize(
    ("reason", "named"),
    [
        ("ImagePullBackOff", "ImageNotFound"),
        ("ErrImagePull", "ImageNotFound"),
        ("InvalidImageName", "ImageNotFound"),
        ("CreateContainerConfigError", "ContainerFailed"),
    ],
)
def test_what_the_container_waits_for(reason: str, named: str) -> None:
    stage = created()
    stage.kubelet.waits(stage.pods()["dispatcher-1"], reason, "Back-off pulling image")
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", named)
    stage.run_pods()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"


def test_a_node_too_small() -> None:
    stage = created()
    stage.kubelet.finds_no_node(stage.pods()["joiner-0l0-1"], "0/1 nodes are available: 1 Insufficient memory.")
    stage.settle()
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "Unschedulable")
    assert "Insufficient memory" in message
    stage.run_pods()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"


def test_a_claim_that_is_not_there_keeps_a_pod_from_a_node() -> None:
    stage = created(state={"durable": {"volume": {"claimName": "joins"}}})
    missing = '0/1 nodes are available: persistentvolumeclaim "joins" not found. preemption: 0/1 nodes are available'
    stage.kubelet.finds_no_node(stage.pods()["joiner-0l0-1"], missing)
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "VolumeMissing")
    assert "the PersistentVolumeClaim joins is missing: create it" in stage.condition("Degraded")[2]


def test_a_quota_that_is_spent_is_named_and_the_attempt_is_tried_again_under_its_number() -> None:
    stage = Stage()
    stage.cluster.quota = 3
    stage.cluster.create(joinquery())
    stage.settle()
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "QuotaExceeded")
    assert "exceeded quota" in message
    assert len(stage.pods()) == 3
    told = stage.events()
    for _ in range(5):
        stage.passes(10)
    assert stage.events() == told, "one event for each decision"
    stage.cluster.quota = None
    stage.passes(10)
    assert sorted(stage.pods()) == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-1"]
    assert stage.condition("Degraded")[0] == "False"
    assert stage.reasons().count("DriverStarted") == 4


def refuse(stage: Stage, *kinds: str, why: str) -> None:
    def refused(verb: str, kind: str, name: str) -> None:
        if verb == "apply" and kind in kinds:
            raise Refused(403, why)

    stage.cluster.before_write = refused


def allow(stage: Stage) -> None:
    stage.cluster.before_write = lambda verb, kind, name: None


@pytest.mark.parametrize(
    ("kind", "name", "why", "reason", "said"),
    [
        ("ConfigMap", "-manifest", "exceeded quota: few, requested: configmaps=1", "QuotaExceeded", "raise the quota"),
        ("Role", "-driver", 'cannot create resource "roles"', "PodRefused", "was refused (403): cannot create"),
        ("NetworkPolicy", "", "admission webhook denied the request", "PodRefused", "denied the request"),
    ],
)
def test_what_a_pod_needs_and_the_api_does_not_take_is_named_until_it_does(
    kind: str, name: str, why: str, reason: str, said: str
) -> None:
    stage = Stage()
    stage.cluster.create(joinquery())
    refuse(stage, kind, why=why)
    stage.settle()
    status, told, message = stage.condition("Degraded")
    assert (status, told) == ("True", reason)
    assert f"{kind} {stage.id}{name} " in message and said in message
    assert stage.condition("Ready") == ("False", reason, message)
    assert stage.pods() == {}, "they would have to do without"
    events = stage.events()
    for _ in range(3):
        stage.passes(10)
    assert stage.events() == events
    allow(stage)
    stage.passes(10)
    assert sorted(stage.pods()) == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-1"]
    assert stage.condition("Degraded")[0] == "False"


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget"])
def test_what_no_pod_needs_is_named_and_holds_nothing_up(kind: str) -> None:
    """As in a namespace with a quota on services."""
    stage = Stage()
    stage.cluster.create(joinquery())
    refuse(stage, kind, why="exceeded quota: few, requested: count/any=1")
    stage.settle()
    assert sorted(stage.pods()) == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-1"]
    assert stage.condition("Ready")[:2] == ("False", "Starting")
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "QuotaExceeded") and message.startswith(f"{kind} ")
    stage.run_pods()
    stage.begins()
    stage.settle()
    assert stage.condition("Ready")[0] == "True"
    stage.change(joiners={"memory": "3Gi"})
    for _ in range(3):
        stage.passes(10)
        stage.run_pods()
        stage.settle()
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-2", "joiner-0r0-2", "shuffler-1"]
    assert stage.condition("Degraded")[1] == "QuotaExceeded"
    stage.kubelet.finds_no_node(stage.pods()["shuffler-1"], "0/1 nodes are available: 1 Insufficient memory.")
    stage.settle()
    assert stage.condition("Degraded")[1] == "Unschedulable", "what keeps it from running is told first"
    allow(stage)
    stage.run_pods()
    stage.passes(10)
    assert stage.condition("Degraded")[0] == "False"


@pytest.mark.parametrize("kind", ["Role", "PodDisruptionBudget"])
def test_what_is_refused_is_asked_again_more_and_more_rarely(kind: str) -> None:
    stage = Stage()
    stage.cluster.create(joinquery())
    asked: list[str] = []

    def refused(verb: str, of: str, name: str) -> None:
        if (verb, of) == ("apply", kind):
            asked.append(name)
            raise Refused(403, "a policy of the cluster says no")

    stage.cluster.before_write = refused
    stage.named_within(2)
    stage.run_pods()
    assert stage.named_within(30)[1] == "PodRefused"
    assert len(asked) >= 4, "soon at first"
    stage.named_within(3600)
    asked.clear()
    stage.named_within(3600)
    assert 55 <= len(asked) <= 65, "once a minute"
    asked.clear()
    stage.change(joiners={"memory": "3Gi"})
    stage.operator.look(stage.key)
    assert asked, "what has changed is tried at once"
    stage.named_within(30)
    assert len(asked) >= 4, "and soon again"
    stage.named_within(3600)
    allow(stage)
    assert stage.named_within(70)[0] == "False"


def test_a_subgroup_that_is_refused_is_not_asked_for_in_a_circle() -> None:
    def no_subgroup(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("apply", "JoinSubgroup"):
            raise Refused(403, "exceeded quota: count/joinsubgroups.biclique.dev")

    stage = Stage()
    stage.cluster.before_write = no_subgroup
    stage.cluster.create(joinquery())
    waits = [stage.operator.look(stage.key) for _ in range(4)]
    assert waits[-1] is not None and waits[-1] >= 1.0
    assert stage.condition("Degraded")[:2] == ("True", "QuotaExceeded")


def test_another_refusal_is_asked_about_as_soon_as_if_it_were_alone() -> None:
    stage = Stage()
    stage.cluster.create(joinquery())
    refuse(stage, "PodDisruptionBudget", why="a policy of the cluster says no")
    stage.named_within(2)
    stage.run_pods()
    stage.named_within(3600)
    stage.cluster.quota = 3
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "no")
    stage.named_within(10)
    assert stage.condition("Ready")[:2] == ("False", "QuotaExceeded")
    again_s = stage.operator.look(stage.key)
    assert again_s is not None and 4 <= again_s <= 6


def test_what_stands_there_as_it_was_keeps_no_driver_from_coming_back() -> None:
    stage = Stage().is_running()
    stage.cluster.merge("PodDisruptionBudget", "default", stage.id, {"spec": {"minAvailable": 0}})
    refuse(stage, "PodDisruptionBudget", why="admission webhook denied the request")
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "no")
    stage.settle()
    stage.passes(5)
    assert "shuffler-2" in stage.alive()
    stage.run_pods()
    stage.settle()
    assert stage.condition("Ready")[0] == "True"
    assert stage.condition("Degraded")[:2] == ("True", "PodRefused")
    allow(stage)
    stage.passes(10)
    assert stage.condition("Degraded")[0] == "False"


def test_what_another_has_mended_is_refused_no_more() -> None:
    stage = Stage().is_running()
    kept = stage.cluster.get("PodDisruptionBudget", "default", stage.id)
    assert kept is not None
    stage.cluster.remove("PodDisruptionBudget", "default", stage.id, kept["metadata"]["uid"])
    refuse(stage, "PodDisruptionBudget", why="admission webhook denied the request")
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "PodRefused")
    stage.cluster.create(kept)
    stage.passes(10)
    assert stage.condition("Degraded")[0] == "False"


def test_a_change_that_the_api_does_not_take_starts_nothing_that_would_read_it() -> None:
    stage = Stage().is_running()
    refuse(stage, "ConfigMap", why="exceeded quota")
    stage.change(joiners={"memory": "3Gi"})
    for _ in range(4):
        stage.passes(10)
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-1"]
    assert stage.condition("Degraded")[1] == "QuotaExceeded"
    assert stage.condition("Ready")[0] == "True"
    allow(stage)
    for _ in range(3):
        stage.passes(10)
        stage.run_pods()
        stage.settle()
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-2", "joiner-0r0-2", "shuffler-1"]


def test_a_pod_that_a_webhook_holds_up_keeps_no_other_from_being_made() -> None:
    stage = Stage()
    stage.cluster.create(joinquery())

    def slow(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("create", "Pod") and "-dispatcher-" in name:
            raise Unreachable("Kubernetes does not answer (read timed out)")

    stage.cluster.before_write = slow
    stage.settle()
    assert sorted(stage.pods()) == ["joiner-0l0-1", "joiner-0r0-1", "shuffler-1"]
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "PodRefused")
    assert "dispatcher-1 could not be made, and is tried again" in message
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.passes(60)
    assert "dispatcher-1" in stage.pods()


@pytest.mark.parametrize(
    ("typo", "trouble"),
    [
        ({"image": "nowhere/biclique:typo"}, "ImageNotFound"),
        ({"image": "nowhere/biclique:typo", "cpu": "50m"}, "ImageNotFound"),
        ({"nodeSelector": {"disk": "typo"}}, "Unschedulable"),
        ({"memory": "900Gi"}, "Unschedulable"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_a_change_that_nothing_can_begin_with_takes_one_driver_and_no_other(typo: Raw, trouble: str) -> None:
    stage = Stage().is_running()
    stage.change(tiers=typo)
    stage.settle()
    (gone,) = {"dispatcher-1", "shuffler-1", "joiner-0l0-1", "joiner-0r0-1"} - set(stage.alive())
    anew = f"{gone.rpartition('-')[0]}-2"
    for _ in range(20):
        pod = stage.pods()[anew]
        if trouble == "ImageNotFound":
            stage.kubelet.waits(pod, "ImagePullBackOff", 'Back-off pulling image "nowhere/biclique:typo"')
        else:
            stage.kubelet.finds_no_node(pod, "0/1 nodes are available: 1 cannot take it.")
        stage.passes(30)
    assert stage.condition("Degraded")[1] == trouble
    assert len(stage.alive()) == 4 and gone not in stage.alive()
    stage.change(tiers=dict.fromkeys(typo) | {"cpu": "100m"})
    stage.settle()
    assert len(stage.alive()) == 4
    for _ in range(8):
        stage.run_pods()
        stage.settle()
    assert stage.condition("Ready")[0] == "True"
    assert len([name for name in stage.alive() if name.endswith("-1")]) == 3, "what was never touched ran all the time"


def test_a_change_that_makes_room_reaches_the_others_though_one_waits_for_that_room() -> None:
    stage = Stage().is_running(tiers={"memory": "2Gi", "executors": 0}, joiners={"memory": "1Gi"})
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 4, "no")
    stage.settle()
    stage.passes(5)
    stage.kubelet.finds_no_node(stage.pods()["joiner-0l0-2"], "0/1 nodes are available: 1 Insufficient memory.")
    stage.settle()
    assert stage.condition("Degraded")[1] == "Unschedulable"
    stage.change(tiers={"memory": "1Gi"})
    stage.settle()
    assert len({"shuffler-1", "dispatcher-1"} & set(stage.alive())) == 1, "one of them goes, the other runs"
