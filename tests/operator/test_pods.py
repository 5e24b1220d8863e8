"""What pods are made of: what they may do, for how long a lost node keeps them, and that what they read is what they
were made for."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from biclique.query.pod import MANIFEST_DIGEST, SPARK_DIGEST, SPARK_FILES, digest_of
from biclique_operator import handlers
from biclique_operator.desired.names import QueryName
from biclique_operator.desired.pods import LOST_NODE, tolerations_of
from tests.operator.manifests import GROUPED
from tests.operator.stage import Stage, created

TIERS = ("shuffler", "dispatcher", "joiner", "merger")
Raw = dict[str, Any]


def environment(pod: Raw) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in pod["spec"]["containers"][0]["env"]}


def data(stage: Stage, name: str) -> dict[str, str]:
    found = stage.cluster.get("ConfigMap", "default", f"{stage.id}-{name}")
    assert found is not None
    return dict(found["data"])


def rights(stage: Stage) -> dict[str, tuple[list[str], list[str]]]:
    role = stage.cluster.get("Role", "default", f"{stage.id}-driver")
    assert role is not None
    found = {}
    for rule in role["rules"]:
        (resource,) = rule["resources"]
        found[resource] = rule.get("resourceNames", []), rule["verbs"]
    return found


def test_a_driver_may_write_its_own_routing_tables_and_nothing_else() -> None:
    stage = created()
    assert rights(stage) == {"configmaps": ([f"{stage.id}-routing"], ["get", "list", "watch", "patch"])}


def test_one_with_executors_may_make_pods_too() -> None:
    stage = created(tiers={"executors": 1, "cpu": "100m"})
    found = rights(stage)
    assert found.keys() == {"configmaps", "pods"}
    assert found["configmaps"] == ([f"{stage.id}-routing"], ["get", "list", "watch", "patch"])
    assert "create" in found["pods"][1] and "update" not in found["pods"][1]


def test_a_pod_knows_the_manifest_that_it_was_made_for() -> None:
    stage = Stage().is_running()
    told = environment(stage.pods()["joiner-0l0-1"])
    assert told[MANIFEST_DIGEST] == digest_of(data(stage, "manifest")["join.yaml"])
    assert SPARK_DIGEST not in told
    stage.change(joiners={"memory": "3Gi"})
    for _ in range(4):
        stage.run_pods()
        stage.settle()
    after = environment(stage.pods()["joiner-0l0-2"])
    assert after[MANIFEST_DIGEST] == digest_of(data(stage, "manifest")["join.yaml"]) != told[MANIFEST_DIGEST]


def test_a_pod_with_executors_knows_what_spark_is_to_be_told() -> None:
    stage = created(tiers={"executors": 1, "cpu": "100m"})
    for name, tier in (("shuffler-1", "shuffler"), ("joiner-0r0-1", "joiner")):
        texts = data(stage, f"spark-{tier}")
        assert sorted(texts) == sorted(SPARK_FILES)
        assert environment(stage.pods()[name])[SPARK_DIGEST] == digest_of(*(texts[file] for file in SPARK_FILES))


def test_the_operator_is_told_of_all_pods_of_a_query() -> None:
    stage = created(tiers={"executors": 1, "cpu": "100m"})
    watched = handlers.settings().watching.label_selectors["", "v1", "pods"]
    wanted = dict(each.split("=") for each in watched.split(","))
    template = yaml.safe_load(data(stage, "spark-joiner")["executor.yaml"])
    for pod in (template, *stage.pods().values()):
        assert wanted.items() <= pod["metadata"]["labels"].items()


def test_every_pod_is_restricted_and_writes_to_volumes_alone() -> None:
    stage = created(tiers={"executors": 1, "cpu": "100m"}, sql=GROUPED)
    templates = [yaml.safe_load(data(stage, f"spark-{tier}")["executor.yaml"]) for tier in TIERS]
    for pod in (*stage.pods().values(), *templates):
        spec = pod["spec"]
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert {security["runAsUser"], security["runAsGroup"], security["fsGroup"]} == {185}
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        written = {each["mountPath"]: each["name"] for each in container["volumeMounts"] if not each.get("readOnly")}
        assert written.keys() == {"/tmp", "/var/lib/biclique", "/dev/shm"}
        volumes = {each.pop("name"): each for each in spec["volumes"]}
        assert all(volumes[name].keys() == {"emptyDir"} for name in written.values())
    assert all(pod["spec"]["automountServiceAccountToken"] is False for pod in templates)


def test_spark_asks_for_what_the_manifest_says() -> None:
    """Of Python's memory it adds nothing by itself: heap and overhead together are all that a pod has."""
    stage = created(tiers={"executors": 1, "cpu": "100m", "memory": "2Gi"}, joiners={"memory": "3Gi"}, sql=GROUPED)
    for tier in TIERS:
        lines = data(stage, f"spark-{tier}")["spark-defaults.conf"].splitlines()
        told = dict(line.split(" ", 1) for line in lines)
        assert told["spark.kubernetes.executor.request.cores"] == "100m"
        parts = told["spark.executor.memory"], told["spark.executor.memoryOverhead"]
        program_mib = 1024 if tier == "joiner" else 0  # beside what a unit of it may hold
        assert sum(int(part.removesuffix("m")) for part in parts) == (3072 if tier == "joiner" else 2048) + program_mib
    for pod in stage.pods().values():
        resources = pod["spec"]["containers"][0]["resources"]
        assert resources == {"requests": {"cpu": "100m", "memory": "1024Mi"}, "limits": {"memory": "1024Mi"}}


def test_a_name_leads_to_every_pod_of_a_query() -> None:
    stage = created(tiers={"executors": 1, "cpu": "100m"})
    service = stage.cluster.get("Service", "default", f"query-{stage.id}")
    assert service is not None
    template = yaml.safe_load(data(stage, "spark-joiner")["executor.yaml"])
    for pod in (template, *stage.pods().values()):
        assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    named = {port["name"]: port["targetPort"] for port in service["spec"]["ports"]}
    for pod in stage.pods().values():
        told = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        assert named == {"metrics": told["metrics"]}, "what a driver says of itself is for the operator"
    assert QueryName("7" * 63, "default", "1").service[0].isalpha(), "as the API wants it of a Service"
    assert len(QueryName("7" * 63, "default", "1").service) <= 63


SECONDS = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": 5}


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], LOST_NODE),
        ([{"key": "disk", "operator": "Exists"}], LOST_NODE),
        ([{"key": LOST_NODE[0], **SECONDS}], LOST_NODE[1:]),
        ([{"key": taint, **SECONDS} for taint in LOST_NODE], ()),
        ([{"operator": "Exists"}], ()),
        ([{"operator": "Exists", "effect": "NoSchedule"}], LOST_NODE),
        ([{"key": LOST_NODE[1], "operator": "Exists", "effect": "NoSchedule"}], LOST_NODE),
    ],
)
def test_a_lost_node_keeps_pods_for_as_long_as_the_manifest_says_or_half_a_minute(
    given: list[Raw], added: tuple[str, ...]
) -> None:
    found = tolerations_of(given)
    assert found[: len(given)] == given
    assert [one["key"] for one in found[len(given) :]] == list(added)
    assert all(one["tolerationSeconds"] == 30 for one in found[len(given) :])


def test_every_pod_has_them() -> None:
    stage = created(tiers={"executors": 1, "cpu": "100m"})
    for pod in stage.pods().values():
        assert [one["key"] for one in pod["spec"]["tolerations"]] == list(LOST_NODE)
    assert data(stage, "spark-joiner")["executor.yaml"].count("tolerationSeconds: 30") == 2
