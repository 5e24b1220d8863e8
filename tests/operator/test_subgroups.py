"""The conditions of a JoinSubgroup: as its query's, of its own driver alone."""

from __future__ import annotations

from biclique_operator.cluster import Conflict, Refused
from biclique_operator.observed import says_of
from biclique_operator.policies import reasons
from tests.operator.manifests import joinquery
from tests.operator.stage import ALL_IS_WELL, Stage, created

LEFT, RIGHT = "0L0", "0R0"


def test_one_that_runs_says_all_six_of_its_own_generation() -> None:
    stage = Stage().is_running()
    subgroup = stage.subgroup(LEFT)
    said = {one["type"]: (one["status"], one["reason"]) for one in subgroup["status"]["conditions"]}
    assert said == ALL_IS_WELL
    assert tuple(said) == reasons.CONDITIONS
    assert stage.of_subgroup(LEFT, "Ready")[2] == "its units run"
    generations = {one["observedGeneration"] for one in subgroup["status"]["conditions"]}
    assert generations == {subgroup["metadata"]["generation"]}


def test_what_is_amiss_with_one_is_not_said_of_the_other() -> None:
    stage = created()
    for name, pod in stage.pods().items():
        if name == "joiner-0l0-1":
            stage.kubelet.waits(pod, "ErrImagePull", 'image "biclique-spark:typo" not found')
        else:
            stage.kubelet.runs(pod)
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "ImageNotFound")
    assert stage.of_subgroup(LEFT, "Ready")[:2] == ("False", "ImageNotFound")
    assert stage.of_subgroup(LEFT, "Degraded")[:2] == ("True", "ImageNotFound")
    assert stage.of_subgroup(LEFT, "Progressing") == ("True", "Starting", "waits for joiner-0L0")
    assert stage.of_subgroup(RIGHT, "Ready")[:2] == ("True", "Running")
    assert stage.of_subgroup(RIGHT, "Degraded")[:2] == ("False", "NothingAmiss")


def test_a_pod_that_is_refused_is_amiss_with_its_own_subgroup() -> None:
    def quota(verb: str, kind: str, name: str) -> None:
        if verb == "create" and "-joiner-0l0-" in name:
            raise Refused(403, "exceeded quota: small")

    stage = Stage()
    stage.cluster.before_write = quota
    stage.cluster.create(joinquery())
    stage.settle()
    stage.run_pods()
    stage.settle()
    assert stage.of_subgroup(LEFT, "Degraded")[:2] == ("True", "QuotaExceeded")
    assert stage.of_subgroup(RIGHT, "Degraded")[:2] == ("False", "NothingAmiss")


def test_one_whose_unit_stands_still_is_not_ready_and_says_why() -> None:
    stage = Stage().is_running()
    answer = {"units": {"0L0.0": {"state": "stands still", "why": "no memory is left"}}}
    stage.operator.told = {f"{stage.id}-joiner-0l0-1": says_of(answer)}
    stage.settle()
    said = ("UnitStandsStill", "joiner 0L0.0 stands still: no memory is left")
    assert stage.of_subgroup(LEFT, "Ready") == ("False", *said)
    assert stage.of_subgroup(LEFT, "Degraded") == ("True", *said)
    assert stage.of_subgroup(RIGHT, "Ready")[0] == "True"
    assert stage.condition("Ready")[0] == "True", "every driver answers; what is amiss is said by Degraded"


def test_what_it_ended_of_before_is_not_why_its_unit_stands_still() -> None:
    stage = Stage().is_running()
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 4, "its Java has ended")
    stage.settle()
    stage.passes(10)
    stage.run_pods()
    figures = {"rate_rows_s": 5.0, "state_bytes": 48_000_000, "state_rows": 1_000, "checkpoint_age_s": 1.0}
    answer = {"units": {"0L0.0": {"state": "stands still", "why": "no memory is left"}}, "figures": figures}
    stage.operator.told = {f"{stage.id}-joiner-0l0-2": says_of(answer)}
    stage.passes(60)
    assert stage.of_subgroup(LEFT, "Ready")[:2] == ("False", "UnitStandsStill")
    assert stage.subgroup(LEFT)["status"]["state"] == "48 MB", "which is what one looks for then"


def test_what_another_tier_is_refused_is_not_a_subgroup_s() -> None:
    def refused(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("apply", "ConfigMap") and name.endswith("-spark-dispatcher"):
            raise Refused(403, "no")

    stage = Stage().is_running(tiers={"executors": 1, "cpu": "100m"})
    stage.cluster.before_write = refused
    stage.change(tiers={"executors": 1, "cpu": "200m"})
    stage.settle()
    assert "spark-dispatcher" in stage.condition("Degraded")[2]
    assert stage.of_subgroup(LEFT, "Degraded")[:2] == ("False", "NothingAmiss")


def test_a_roll_is_a_subgroup_s_only_while_its_turn_is_due() -> None:
    stage = Stage().is_running()
    stage.change(tiers={"dispatcher": {"memory": "2Gi"}, "executors": 0, "cpu": "100m"})
    stage.settle()
    assert stage.condition("Progressing")[:2] == ("True", "Rolling")
    assert stage.of_subgroup(LEFT, "Progressing")[:2] == ("False", "Stable")
    for _ in range(3):
        stage.settle()
        stage.run_pods()
    stage.settle()
    stage.change(joiners={"memory": "3Gi"})
    stage.settle()
    assert {stage.of_subgroup(name, "Progressing")[1] for name in (LEFT, RIGHT)} == {"Rolling"}


def test_a_budget_that_is_spent_is_said_of_whose_it_is() -> None:
    stage = Stage().is_running()
    for _ in range(16):
        for name, pod in stage.pods().items():
            if name.startswith("joiner-0l0") and (pod.get("status") or {}).get("phase") != "Failed":
                stage.kubelet.ends(pod, 4, "it fails")
        stage.passes(400)
        stage.settle()
    assert stage.of_subgroup(LEFT, "Degraded")[:2] == ("True", "RestartBudgetSpent")
    assert stage.of_subgroup(RIGHT, "Degraded")[:2] == ("False", "NothingAmiss")


def test_a_change_that_is_refused_is_its_query_s_to_tell() -> None:
    stage = Stage().is_running()
    before = stage.subgroup(LEFT)["metadata"]["resourceVersion"]
    stage.change(sql="SELECT FROM")
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "InvalidManifest")
    assert stage.subgroup(LEFT)["metadata"]["resourceVersion"] == before


def test_it_is_suspended_paused_and_deleted_with_its_query() -> None:
    stage = Stage().is_running()
    stage.rests()
    assert stage.of_subgroup(LEFT, "Suspended")[:2] == ("True", "Suspended")
    assert stage.of_subgroup(LEFT, "Ready")[:2] == ("False", "Suspended")
    stage.change(suspend=False)
    stage.settle()
    stage.run_pods()
    stage.settle()
    stage.annotate(reconcile="paused")
    stage.settle()
    assert stage.of_subgroup(LEFT, "Progressing")[:2] == ("False", "ReconciliationPaused")
    assert stage.of_subgroup(LEFT, "Ready")[0] == "True"
    stage.annotate(reconcile=None)
    stage.settle()
    assert stage.of_subgroup(LEFT, "Progressing")[:2] == ("False", "Stable")
    stage.delete()
    stage.settle()
    assert stage.of_subgroup(LEFT, "Ready")[:2] == ("False", "Deleting")


def test_what_was_done_is_told_where_the_status_that_says_so_meets_a_conflict() -> None:
    """A driver is begun, and a person has changed the query meanwhile: the next look sees the pod, and not that it was
    never told of."""

    conflicts: list[str] = []

    def edited(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("status", "JoinQuery") and not conflicts:
            conflicts.append(name)
            raise Conflict(409, "somebody was quicker")

    stage = Stage().is_running()
    told = stage.events()
    stage.cluster.before_write = edited
    stage.change(tiers={"dispatcher": {"memory": "2Gi"}})
    for _ in range(3):
        stage.settle()
        stage.run_pods()
    stage.settle()
    assert conflicts == ["fits"]
    told_since = [reason for reason, _ in stage.events()[len(told) :]]
    assert [reason for reason in told_since if "Driver" in reason] == ["DriverStopped", "DriverStarted"]
