"""A query's life, step by step, with the kubelet played: created, suspended, resumed, paused, deleted."""

from __future__ import annotations

import json

from biclique_operator.cluster import Refused
from tests.operator.manifests import joinquery, spec
from tests.operator.stage import ALL_IS_WELL, Operator, Stage

DRIVERS = ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-1"]


def test_a_new_query_gets_everything_and_becomes_ready() -> None:
    stage = Stage()
    stage.cluster.create(joinquery())
    stage.settle()
    kinds = sorted((kind, name.replace(stage.id, "")) for kind, name in stage.everything())
    assert kinds == [
        ("ConfigMap", "-manifest"),
        ("ConfigMap", "-routing"),
        ("JoinQuery", "fits"),
        ("JoinSubgroup", "-0l0"),
        ("JoinSubgroup", "-0r0"),
        ("NetworkPolicy", ""),
        ("Pod", "-dispatcher-1"),
        ("Pod", "-joiner-0l0-1"),
        ("Pod", "-joiner-0r0-1"),
        ("Pod", "-shuffler-1"),
        ("PodDisruptionBudget", ""),
        ("Role", "-driver"),
        ("RoleBinding", "-driver"),
        ("Service", "query-"),
        ("ServiceAccount", "-driver"),
        ("ServiceAccount", "-executor"),
    ]
    assert stage.condition("Ready")[:2] == ("False", "Starting")
    assert stage.condition("Progressing")[:2] == ("True", "Starting")
    stage.run_pods()
    stage.settle()
    assert stage.condition("Ready") == ("True", "Running", "every tier runs")
    assert stage.condition("Progressing")[:2] == ("False", "Stable")
    assert stage.status["units"] == "2/2"
    assert stage.status["strategy"] == "biclique"
    assert stage.status["observedGeneration"] == 1
    assert "began" not in stage.status
    stage.begins()
    stage.settle()
    assert stage.status["began"]


def test_a_query_that_runs_says_all_six_conditions_of_its_generation() -> None:
    stage = Stage().is_running()
    stage.change(scaling={"policy": "none"})
    stage.settle()
    said = {one["type"]: (one["status"], one["reason"]) for one in stage.status["conditions"]}
    assert said == ALL_IS_WELL
    generation = stage.operator.query(stage.key)["metadata"]["generation"]
    assert generation == 2
    assert {one["observedGeneration"] for one in stage.status["conditions"]} == {generation}


def test_each_decision_is_told_once() -> None:
    stage = Stage().is_running()
    told = stage.events()
    assert sorted(reason for reason, _ in told) == [*["DriverStarted"] * 4, "Running"]
    for _ in range(5):
        stage.passes(60)
    assert stage.events() == told
    stage.change(tiers={"dispatcher": {"memory": "2Gi"}})
    for _ in range(3):
        stage.settle()
        stage.run_pods()
    stage.passes(60)
    rolled = [
        ("DriverStopped", f"{stage.id}-dispatcher-1 is taken away: its part of the manifest has changed"),
        ("Rolling", "Ready is False: waits for dispatcher"),
        ("DriverStarted", "attempt 2 of dispatcher begins"),
        ("Running", "Ready is True: every tier runs"),
    ]
    assert stage.events() == [*told, *rolled]


# --- suspend and resume ----------------------------------------------------------------------------------------------


def routing(stage: Stage) -> dict[str, str]:
    found = stage.cluster.get("ConfigMap", "default", f"{stage.id}-routing")
    assert found is not None
    return dict(found["metadata"].get("annotations") or {})


def test_a_suspended_query_stops_by_itself_and_keeps_its_state() -> None:
    stage = Stage().is_running()
    stage.change(suspend=True)
    stage.settle()
    assert routing(stage)["biclique.dev/stop"] == "true"
    assert stage.condition("Suspended")[:2] == ("False", "Stopping")
    assert stage.condition("Progressing")[:2] == ("True", "Stopping")
    assert stage.condition("Ready")[:2] == ("False", "Suspended")
    assert stage.alive() == DRIVERS, "they end between two transactions, by themselves"
    for pod in stage.pods().values():
        stage.kubelet.ends(pod, 0, "stopped as asked")
    stage.settle()
    assert stage.pods() == {}
    assert stage.condition("Suspended")[:2] == ("True", "Suspended")
    assert stage.condition("Degraded")[0] == "False"
    manifest = stage.cluster.get("ConfigMap", "default", f"{stage.id}-routing")
    assert manifest is not None and "table.0" in manifest["data"]


def test_a_driver_that_does_not_stop_by_itself_is_taken_away() -> None:
    stage = Stage().is_running()
    stage.change(suspend=True)
    stage.settle()
    stage.passes(30)
    assert stage.alive() == DRIVERS
    stage.passes(20)
    assert stage.alive() == []


def test_a_resumed_query_begins_new_attempts() -> None:
    stage = Stage().is_running()
    stage.rests()
    stage.change(suspend=False)
    stage.settle()
    assert "biclique.dev/stop" not in routing(stage)
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-2", "joiner-0r0-2", "shuffler-2"]
    stage.run_pods()
    stage.settle()
    assert stage.condition("Ready")[0] == "True"
    assert stage.condition("Suspended")[:2] == ("False", "NotSuspended")


def test_a_query_that_is_resumed_while_it_stops_comes_back() -> None:
    stage = Stage().is_running()
    stage.change(suspend=True)
    stage.settle()
    stage.change(suspend=False)
    stage.settle()
    for name in ("shuffler-1", "dispatcher-1"):  # they had heard it
        stage.kubelet.ends(stage.pods()[name], 0, "stopped as asked")
    stage.settle()
    stage.passes(5)
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-1", "joiner-0r0-1", "shuffler-2"]


def test_a_query_may_be_created_suspended() -> None:
    stage = Stage()
    stage.cluster.create(joinquery(suspend=True))
    stage.settle()
    assert stage.pods() == {}
    assert stage.condition("Suspended")[:2] == ("True", "Suspended")
    stage.change(suspend=False)
    stage.settle()
    assert stage.alive() == DRIVERS


# --- pause -----------------------------------------------------------------------------------------------------------


def test_while_reconciliation_is_paused_nothing_is_changed() -> None:
    stage = Stage().is_running()
    stage.annotate(reconcile="paused")
    stage.change(delivery="atLeastOnce")
    stage.settle()
    assert stage.condition("Progressing")[:2] == ("False", "ReconciliationPaused")
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "its Java has ended")
    stage.settle()
    stage.passes(100)
    assert "shuffler-2" not in stage.pods()
    stage.annotate(reconcile=None)
    stage.settle()
    stage.passes(5)
    assert "shuffler-2" in stage.pods()


# --- deletion --------------------------------------------------------------------------------------------------------


def delete(stage: Stage) -> None:
    stage.delete()


def is_gone(stage: Stage) -> bool:
    return stage.cluster.get("JoinQuery", "default", "fits") is None


def leftovers(stage: Stage) -> dict[str, dict[str, str]]:
    found = stage.cluster.get("ConfigMap", "biclique-system", "biclique-leftovers")
    return {} if found is None else {prefix: json.loads(text) for prefix, text in found["data"].items()}


def test_a_deleted_query_goes_when_its_drivers_have_stopped() -> None:
    stage = Stage().is_running()
    prefix = stage.id
    delete(stage)
    stage.settle()
    assert not is_gone(stage)
    assert stage.cluster.get("ConfigMap", "default", f"{prefix}-routing")["metadata"]["annotations"][  # type: ignore[index]
        "biclique.dev/stop"
    ]
    for pod in stage.pods().values():
        stage.kubelet.ends(pod, 0)
    stage.operator.look(stage.key)
    assert is_gone(stage)
    assert leftovers(stage)[prefix]["bootstrap_servers"] == "kafka:9092"


def test_a_query_that_is_being_deleted_is_not_ready_any_more() -> None:
    stage = Stage().is_running()
    delete(stage)
    stage.settle()
    assert stage.alive() == DRIVERS
    assert stage.condition("Ready")[:2] == ("False", "Deleting")
    assert stage.condition("Progressing")[:2] == ("True", "Deleting")
    assert stage.condition("Degraded")[:2] == ("False", "NothingAmiss"), "the rest as it stood"


def test_what_a_deleted_query_leaves_is_noted_before_its_drivers_have_stopped() -> None:
    """Whoever deletes in the foreground, or the whole namespace, has everything of the query removed at once."""
    stage = Stage().is_running()
    prefix = stage.id
    delete(stage)
    manifest = stage.cluster.get("ConfigMap", "default", f"{prefix}-manifest")
    assert manifest is not None
    stage.cluster.remove("ConfigMap", "default", f"{prefix}-manifest", manifest["metadata"]["uid"])
    stage.operator.look(stage.key)
    assert stage.alive() == DRIVERS and not is_gone(stage)
    assert leftovers(stage)[prefix]["bootstrap_servers"] == "kafka:9092"


def test_what_it_leaves_is_noted_once_and_again_by_the_next_operator() -> None:
    stage = Stage().is_running()
    delete(stage)
    writes: list[str] = []
    stage.cluster.before_write = lambda verb, kind, name: writes.append(name)
    for _ in range(3):
        stage.operator.look(stage.key)
    assert writes.count("biclique-leftovers") == 1
    stage.operator = Operator(stage.cluster, stage.clock)
    for _ in range(3):
        stage.operator.look(stage.key)
    assert writes.count("biclique-leftovers") == 2
    assert list(leftovers(stage)) == [stage.id]


def test_where_the_manifest_says_nothing_any_more_the_spec_tells_what_is_left() -> None:
    """As after an upgrade whose validator refuses what an older one has let run."""
    stage = Stage().is_running()
    prefix = stage.id
    stage.cluster.merge("ConfigMap", "default", f"{prefix}-manifest", {"data": {"join.yaml": "{}"}})
    delete(stage)
    stage.operator.look(stage.key)
    assert list(leftovers(stage)) == [prefix]


def refuse_notes(stage: Stage, why: str) -> None:
    def refused(verb: str, kind: str, name: str) -> None:
        if name == "biclique-leftovers":
            raise Refused(403, why)

    stage.cluster.before_write = refused


def test_what_could_not_be_noted_is_noted_at_a_later_look() -> None:
    stage = Stage().is_running()
    delete(stage)
    refuse_notes(stage, "not now")
    stage.operator.look(stage.key)
    assert leftovers(stage) == {}
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.operator.look(stage.key)
    assert list(leftovers(stage)) == [stage.id]


def test_a_deleted_query_goes_within_a_minute_whatever_its_drivers_do() -> None:
    stage = Stage().is_running()
    delete(stage)
    for _ in range(12):
        if is_gone(stage):
            break
        stage.operator.look(stage.key)
        stage.clock.passes(5)
    assert is_gone(stage)
    assert stage.clock() < 1_750_000_000 + 60


def test_a_query_goes_even_where_nothing_can_be_noted() -> None:
    """As in a namespace that is being deleted with the operator in it."""
    stage = Stage().is_running()
    delete(stage)
    refuse_notes(stage, "unable to create new content in namespace because it is being terminated")
    for _ in range(12):
        stage.operator.look(stage.key)
        stage.clock.passes(5)
    assert is_gone(stage)


def test_a_query_goes_while_reconciliation_is_paused() -> None:
    stage = Stage().is_running()
    stage.annotate(reconcile="paused")
    delete(stage)
    stage.settle()
    for pod in stage.pods().values():
        stage.kubelet.ends(pod, 0)
    stage.operator.look(stage.key)
    assert is_gone(stage)


def test_a_query_that_was_never_valid_goes_at_once() -> None:
    stage = Stage()
    stage.cluster.create(joinquery(sql="SELECT"))
    stage.settle()
    delete(stage)
    stage.operator.look(stage.key)
    assert is_gone(stage)
    assert leftovers(stage) == {}


def test_a_query_made_anew_under_the_same_name_has_nothing_of_the_old_one() -> None:
    stage = Stage().is_running()
    old = stage.id
    delete(stage)
    stage.settle()
    for pod in stage.pods().values():
        stage.kubelet.ends(pod, 0)
    stage.operator.look(stage.key)
    stage.cluster.create(joinquery())
    stage.settle()
    assert stage.id != old
    own = [name for kind, name in stage.everything() if kind == "Pod" and name.startswith(stage.id)]
    assert len(own) == 4


# --- a manifest that nobody understands any more ----------------------------------------------------------------------


def test_what_is_known_of_drivers_outlasts_a_manifest_that_a_newer_operator_refuses() -> None:
    """Attempts are counted in the status, and no name may come twice."""
    stage = Stage().is_running()
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "no")
    stage.settle()
    stage.passes(5)
    stage.run_pods()
    stage.settle()
    before = stage.status
    text = stage.cluster.get("ConfigMap", "default", f"{stage.id}-manifest")["data"]["join.yaml"]  # type: ignore[index]
    stage.cluster.merge("ConfigMap", "default", f"{stage.id}-manifest", {"data": {"join.yaml": "{}"}})
    stage.change(sql="SELECT")
    stage.settle()
    assert stage.condition("Ready")[:2] == ("False", "InvalidManifest")
    kept = ("tiers", "subgroups", "units", "strategy", "image", "restarted", "began")
    assert {key: stage.status[key] for key in kept} == {key: before[key] for key in kept}
    for pod in stage.pods().values():
        stage.cluster.remove("Pod", "default", pod["metadata"]["name"], pod["metadata"]["uid"])
    stage.cluster.merge("ConfigMap", "default", f"{stage.id}-manifest", {"data": {"join.yaml": text}})
    stage.change(sql=spec()["sql"])
    stage.settle()
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-2", "joiner-0r0-2", "shuffler-3"]


def test_it_can_be_suspended_even_so() -> None:
    stage = Stage().is_running()
    stage.cluster.merge("ConfigMap", "default", f"{stage.id}-manifest", {"data": {"join.yaml": "{}"}})
    stage.change(sql="SELECT", suspend=True)
    stage.settle()
    assert routing(stage)["biclique.dev/stop"] == "true"
    assert stage.condition("Suspended")[:2] == ("False", "Stopping"), "its drivers run"
    assert stage.condition("Progressing")[:2] == ("True", "Stopping")
    for name, pod in stage.pods().items():
        if name != "shuffler-1":
            stage.kubelet.ends(pod, 0)
    stage.settle()
    said = stage.condition("Progressing")
    assert said == ("True", "Stopping", "waits for the end of shuffler")
    stage.passes(60)
    assert "shuffler-1" not in stage.pods(), "it has had its time"
    assert stage.condition("Suspended")[:2] == ("True", "Suspended")


# --- routing tables that are gone -------------------------------------------------------------------------------------


def test_a_query_whose_routing_tables_somebody_has_deleted_starts_nothing_until_they_are_restored() -> None:
    stage = Stage().is_running()
    name = f"{stage.id}-routing"
    kept = stage.cluster.get("ConfigMap", "default", name)
    assert kept is not None
    stage.cluster.remove("ConfigMap", "default", name, kept["metadata"]["uid"])
    stage.change(sql=spec()["sql"].replace("10 MINUTES", "11 MINUTES"), joiners={"memory": "3Gi"})
    stage.annotate(restart="now")
    stage.settle()
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "RoutingLost")
    assert name in message and "restore it" in message and "under another name" in message
    assert stage.condition("Ready")[0] == "True", "what runs, runs on"
    assert stage.alive() == DRIVERS
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "its Java has ended")
    for _ in range(5):
        stage.passes(60)
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1"]
    assert stage.condition("Ready")[:2] == ("False", "RoutingLost")
    assert stage.cluster.get("ConfigMap", "default", name) is None, "an empty one would be taken for a beginning"
    assert stage.reasons().count("RoutingLost") == 1
    stage.change(sql=spec()["sql"], joiners=None)
    stage.annotate(restart=None)
    stage.cluster.create(kept)
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "DriverFailed"), "as before it was lost"
    assert stage.alive() == ["dispatcher-1", "joiner-0l0-1", "joiner-0r0-1", "shuffler-2"]
    stage.run_pods()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"


def test_routing_tables_that_were_emptied_are_lost_too() -> None:
    stage = Stage().is_running()
    stage.cluster.merge("ConfigMap", "default", f"{stage.id}-routing", {"data": {"began": None, "table.0": None}})
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "RoutingLost")
    stage.change(suspend=True)
    stage.settle()
    assert routing(stage)["biclique.dev/stop"] == "true", "what runs can still be stopped"
    for pod in stage.pods().values():
        stage.kubelet.ends(pod, 0, "stopped as asked")
    stage.settle()
    stage.change(suspend=False)
    for _ in range(3):
        stage.passes(60)
    assert stage.alive() == []
    stage.begins()
    stage.settle()
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-2", "joiner-0r0-2", "shuffler-2"]


def test_where_every_config_map_was_deleted_nothing_that_runs_is_touched() -> None:
    stage = Stage().is_running()
    for found in stage.cluster.list("ConfigMap", "default"):
        stage.cluster.remove("ConfigMap", "default", found["metadata"]["name"], found["metadata"]["uid"])
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "RoutingLost")
    assert stage.alive() == DRIVERS


# --- manifests that are no good --------------------------------------------------------------------------------------


def test_an_invalid_manifest_is_told_in_the_sentence_of_validate() -> None:
    stage = Stage()
    stage.cluster.create(joinquery(sql="SELECT o.nothing FROM orders o JOIN offers f ON o.id = f.id"))
    stage.settle()
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "InvalidManifest")
    assert message.startswith("spec.sql, line 1, column 8: there is no column") or "nothing" in message
    assert stage.condition("Ready")[:2] == ("False", "InvalidManifest")
    assert [kind for kind, _ in stage.everything()] == ["JoinQuery"]
    stage.change(sql=spec()["sql"])
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"
    assert stage.alive() == DRIVERS


def test_an_invalid_change_touches_nothing_that_runs() -> None:
    stage = Stage().is_running()
    before = {k: v for k, v in stage.everything().items() if k[0] != "JoinQuery"}
    stage.change(sql="SELECT FROM")
    stage.settle()
    assert {k: v for k, v in stage.everything().items() if k[0] != "JoinQuery"} == before
    assert stage.condition("Degraded")[:2] == ("True", "InvalidManifest")
    assert stage.condition("Ready")[0] == "True", "the one before it runs on"
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "its Java has ended")
    stage.settle()
    stage.passes(5)
    assert "shuffler-2" in stage.alive(), "and is looked after"
