"""What goes on around the operator by itself: nodes run and end pods, Spark makes executors of the template that it is
told, and what belonged to a driver goes with it. Played by hand, where no node is."""

from __future__ import annotations

from typing import Any

import yaml

from biclique_operator.desired.names import COMPONENT, EXECUTOR, QUERY, ROLE, STOP
from biclique_operator.observed import annotations_of, labels_of
from tests.operator.stage import Stage

Raw = dict[str, Any]


def spark_makes(stage: Stage, driver: Raw) -> Raw:
    """An executor; as the template says now, which is not always what it said when its driver began."""
    owner, tier = driver["metadata"], labels_of(driver)[COMPONENT]
    told = stage.cluster.get("ConfigMap", stage.key.namespace, f"{stage.named.id}-spark-{tier}")
    made: Raw = yaml.safe_load(told["data"]["executor.yaml"])
    made["metadata"] |= {
        "name": f"{owner['name']}-exec-1",
        "namespace": stage.key.namespace,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"]}],
    }
    made["spec"]["containers"][0]["image"] = "biclique-spark:test"
    return dict(stage.cluster.create(made))


def go_on(stage: Stage) -> None:
    """One turn of each."""
    asked_to_stop = _is_asked_to_stop(stage)
    pods = stage.cluster.list("Pod", stage.key.namespace, {QUERY: stage.key.name})
    executors = {_owner(pod): pod for pod in pods if labels_of(pod)[ROLE] == EXECUTOR}
    running = set()
    for pod in pods:
        name = pod["metadata"]["name"]
        if labels_of(pod)[ROLE] == EXECUTOR or _phase(pod) in ("Succeeded", "Failed"):
            continue
        if asked_to_stop:
            stage.kubelet.ends(pod, 0)
            continue
        running.add(name)
        if _phase(pod) == "Pending":
            stage.kubelet.runs(pod)
        elif name not in executors and _asks_for_executors(pod):
            stage.kubelet.runs(spark_makes(stage, pod))
    for owner, pod in executors.items():
        if owner not in running:
            stage.cluster.remove("Pod", stage.key.namespace, pod["metadata"]["name"], pod["metadata"]["uid"])


def _is_asked_to_stop(stage: Stage) -> bool:
    routing = stage.cluster.get("ConfigMap", stage.key.namespace, stage.named.routing)
    return routing is not None and annotations_of(routing).get(STOP) == "true"


def _phase(pod: Raw) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def _owner(pod: Raw) -> str:
    (owner,) = pod["metadata"]["ownerReferences"]
    return str(owner["name"])


def _asks_for_executors(pod: Raw) -> bool:
    return any(volume["name"] == "spark" for volume in pod["spec"]["volumes"])
