"""A query's ConfigMaps: its manifest, its routing tables, and what Spark is told of executors."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

import yaml

from biclique.query.pod import SPARK_FILES
from biclique_operator.desired.drivers import MIB, Driver
from biclique_operator.desired.executor_pod import template
from biclique_operator.desired.names import COMPONENT, SECRETS, STOP, QueryName, metadata
from biclique_operator.desired.pods import AUTHENTICATION_FOLDER, AUTHENTICATION_KEY, Mounts
from biclique_operator.settings import Images

MANIFEST_KEY = "join.yaml"
SPARK_FOLDER = "/etc/biclique/spark"
HEAP_MIB = 512  # Spark refuses less with the serial collector


def manifest(query: QueryName, text: str) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(query, query.manifest),
        "data": {MANIFEST_KEY: text},
    }


def routing(query: QueryName, stopping: bool) -> dict[str, object]:
    """Without `data`: that is the tiers', key by key. Where they must stop, the annotation says so; it goes when this
    is applied without it, since it is ours."""
    about = metadata(query, query.routing)
    if stopping:
        about["annotations"] = {STOP: "true"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about}


def spark(query: QueryName, driver: Driver, mounts: Mounts, images: Images) -> dict[str, Any]:
    """Of a tier: joiner subgroups have the same one. What follows from the manifest alone, and how many executors there
    are, the driver knows itself."""
    settings = {
        "spark.kubernetes.container.image": driver.pods.image or images.spark,
        "spark.kubernetes.container.image.pullPolicy": images.pull_policy,
        "spark.kubernetes.executor.podTemplateFile": f"{SPARK_FOLDER}/executor.yaml",
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.authenticate.executor.serviceAccountName": query.executor_account,
        "spark.kubernetes.executor.request.cores": f"{driver.pods.cpu}m",
        "spark.executor.memory": f"{HEAP_MIB}m",
        # Of Python's memory Spark adds nothing in client mode: what is not said here is what the pod is killed for.
        "spark.executor.memoryOverhead": f"{driver.executor_bytes // MIB - HEAP_MIB}m",
        # Whoever reaches the driver's port could be given units to run, or send it tasks' results.
        "spark.authenticate": "true",
        "spark.authenticate.secret.file": f"{AUTHENTICATION_FOLDER}/{AUTHENTICATION_KEY}",
    }
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    texts = {
        "executor.yaml": _as_yaml(json.dumps(template(query, driver, mounts, images), sort_keys=True)),
        "spark-defaults.conf": "".join(lines),
    }
    assert tuple(texts) == SPARK_FILES, "their digest is made of these, in this order"
    about = metadata(query, query.spark(driver.tier), {COMPONENT: driver.tier})
    about["annotations"] = {SECRETS: str(query.secrets)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": texts}


@lru_cache(maxsize=1024)
def _as_yaml(text: str) -> str:
    """What people look at. It takes milliseconds, for each tier at each look, and is nearly always the same."""
    return yaml.safe_dump(json.loads(text), sort_keys=True)
