"""What a Spark whose executors are pods is told by the driver that starts it.

What a person has chosen of pods (image, memory, processors, nodes, account) comes from the settings that Spark reads by
itself (SPARK_CONF_DIR), which the operator writes. What follows from this driver's own pod, from the plan and from how
a tier uses Spark is here.

A unit is one task for as long as it lives, so an executor has a slot for each unit that is to run on it, whatever it
has of processors. Of joiners each has a pod of its own: memory is counted for each, and they come and go by pods.
Executors belong to their driver's pod and go with it; their names begin with its name, which is another one with every
attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from biclique.hosts.spark_settings import on_a_cluster
from biclique.query.pod import BLOCKS_PORT, DRIVER_PORT

POD_NAME, POD_NAMESPACE, POD_IP = "POD_NAME", "POD_NAMESPACE", "POD_IP"
SHUFFLER_SLOTS = 2  # of one executor: its tasks are short, one for each source partition that has something
# Pods that fail within ten minutes, for each that is wanted; beyond it Spark stops, and the driver with it.
FAILURES, FAILURES_WITHIN = 10, "10m"
PODS_MAX = 10_000  # that one driver ever asks for: a backstop only, since Spark then stands still and says nothing


@dataclass(frozen=True)
class Pod:
    """A driver's own."""

    name: str
    namespace: str
    ip: str


@dataclass(frozen=True)
class Executors:
    """`count` pods with `slots` tasks each."""

    count: int
    slots: int


def executors_for(tier: str, wanted: int, units: int) -> Executors:
    """`wanted`: by the manifest. `units`: of this driver; of a shuffler 0."""
    if tier == "shuffler":
        return Executors(max(1, wanted), SHUFFLER_SLOTS)
    if tier == "joiner":
        return Executors(units, 1)
    count = max(1, min(wanted, units))
    return Executors(count, -(-units // count))


def in_pods(name: str, master: str, java: str, pod: Pod, executors: Executors) -> dict[str, str]:
    """`name`, `master`, `java`: see `on_a_cluster`."""
    return {
        **on_a_cluster(name, master, java),
        "spark.driver.host": pod.ip,
        "spark.driver.bindAddress": pod.ip,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCKS_PORT),
        "spark.blockManager.port": str(BLOCKS_PORT),
        "spark.kubernetes.namespace": pod.namespace,
        "spark.kubernetes.driver.pod.name": pod.name,
        "spark.kubernetes.executor.podNamePrefix": pod.name,
        "spark.kubernetes.allocation.maximum": str(PODS_MAX),
        "spark.kubernetes.executor.disableConfigMap": "true",  # of SPARK_CONF_DIR, of which executors need nothing
        # There is neither a Service nor a claim of Spark's: it would look for some, for which the driver has no rights.
        "spark.kubernetes.driver.service.deleteOnTermination": "false",
        "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
        "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
        "spark.dynamicAllocation.enabled": "false",
        "spark.executor.instances": str(executors.count),
        "spark.executor.cores": str(executors.slots),
        "spark.task.cpus": "1",
        "spark.executor.maxNumFailures": str(FAILURES * executors.count),
        "spark.executor.failuresValidityInterval": FAILURES_WITHIN,
        # Units are started at once, each as soon as there is a slot; nobody waits for all executors.
        "spark.scheduler.minRegisteredResourcesRatio": "0",
    }


def executors_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Of the driver's environment, what units on executors need: telemetry's settings. Which pod it is an executor
    knows itself. Headers may hold a password, and what is told to Spark stands in pods for all to read."""
    told = {
        name: value for name, value in settings.items() if name.startswith("OTEL_") and not name.endswith("_HEADERS")
    }
    attributes = told.get("OTEL_RESOURCE_ATTRIBUTES")
    if attributes is not None:
        pairs = [pair for pair in attributes.split(",") if pair.partition("=")[0].strip() != "k8s.pod.name"]
        told["OTEL_RESOURCE_ATTRIBUTES"] = ",".join(pairs)
    return {f"spark.executorEnv.{name}": value for name, value in told.items()}
