"""An executor: Spark makes it of a template, for a driver that asks for it, and it goes with that driver."""

from __future__ import annotations

from typing import Any

from biclique_operator.desired.drivers import MIB, Driver
from biclique_operator.desired.names import COMPONENT, EXECUTOR, ROLE, QueryName
from biclique_operator.desired.pods import (
    HOME,
    Mounts,
    container_security,
    mounts_of,
    pod_security,
    pulling,
    tolerations_of,
    volumes_of,
)
from biclique_operator.settings import Images

# Spark reads a secret's file only where it knows that it is on Kubernetes, and an executor is not told so before it has
# shown its driver the secret. Which master it is does not count.
ON_KUBERNETES = "-Dspark.master=k8s://executor"


def template(query: QueryName, driver: Driver, mounts: Mounts, images: Images) -> dict[str, Any]:
    """Image, arguments, resources and name are Spark's to say."""
    environment = {"HOME": HOME} | ({"JAVA_TOOL_OPTIONS": ON_KUBERNETES} if mounts.authentication else {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {**query.labels(), COMPONENT: driver.tier, ROLE: EXECUTOR}},
        "spec": {
            "serviceAccountName": query.executor_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            "nodeSelector": driver.pods.node_selector,
            "tolerations": tolerations_of(driver.pods.tolerations),
            "securityContext": pod_security(),
            **pulling(images),
            "containers": [
                {
                    "name": "executor",
                    # Spark copies its jars into the working directory, and the root is read-only.
                    "workingDir": HOME,
                    "env": [{"name": name, "value": value} for name, value in environment.items()],
                    "securityContext": container_security(),
                    "volumeMounts": mounts_of(mounts),
                }
            ],
            "volumes": volumes_of(mounts),
        },
    }


def trial(query: QueryName, driver: Driver, driver_pod: str, mounts: Mounts, images: Images) -> dict[str, Any]:
    """An executor as Spark would make it, to ask the API whether it would be taken. Spark writes a refusal down in its
    log, and tries again: nobody else is told."""
    pod = template(query, driver, mounts, images)
    (container,) = pod["spec"]["containers"]
    memory = f"{driver.executor_bytes // MIB}Mi"
    container |= {
        "image": driver.pods.image or images.spark,
        "imagePullPolicy": images.pull_policy,
        "resources": {"requests": {"cpu": f"{driver.pods.cpu}m", "memory": memory}, "limits": {"memory": memory}},
    }
    pod["spec"]["restartPolicy"] = "Never"
    pod["metadata"] |= {"name": f"{driver_pod}-exec-trial", "namespace": query.namespace}
    return pod
