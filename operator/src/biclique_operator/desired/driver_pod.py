"""A driver: a bare pod that is never restarted in place. Each attempt has a pod of its own under a new name, so that
what Spark has made for one attempt goes with it, and two attempts are never taken for one."""

from __future__ import annotations

from collections.abc import Mapping

from biclique.query.pod import (
    CONTROL_IN_KUBERNETES,
    MANIFEST_DIGEST,
    METRICS_PORT,
    SPARK_DIGEST,
    SPARK_FILES,
    STATUS_PORT,
    digest_of,
)
from biclique_operator.desired.config_maps import MANIFEST_KEY, SPARK_FOLDER, spark
from biclique_operator.desired.drivers import MIB, Driver
from biclique_operator.desired.names import (
    ATTEMPT,
    COMPONENT,
    DRIVER,
    GENERATION,
    IMAGE,
    ROLE,
    SECRETS,
    SPEC_HASH,
    SUBGROUP,
    QueryName,
)
from biclique_operator.desired.pods import (
    HOME,
    SECRETS_FOLDER,
    VOLUMES_FOLDER,
    Mounts,
    container_security,
    mounts_of,
    pod_security,
    pulling,
    tolerations_of,
    volumes_of,
)
from biclique_operator.settings import Installation

QUERY_FOLDER = "/etc/biclique/query"
STARTS_S = 300  # so long a driver may take until it answers the kubelet
GRACE_S = 30  # SIGTERM ends a tier between two transactions, within 20 s


def pod_name(query: QueryName, driver: Driver, attempt: int) -> str:
    return f"{pod_stem(query, driver)}{attempt}"


def pod_stem(query: QueryName, driver: Driver) -> str:
    """What the names of its pods begin with, and those of no other driver."""
    return f"{query.pods}-{driver.name.lower()}-"


def driver_pod(
    query: QueryName,
    driver: Driver,
    attempt: int,
    spec_hash: str,
    generation: int,
    owner: dict[str, object],
    manifest: str,
    mounts: Mounts,
    installation: Installation,
) -> dict[str, object]:
    """`owner`: the query, or of a joiner its subgroup. `manifest`: the text that it is to read."""
    args = ["biclique", "tier", driver.tier, f"{QUERY_FOLDER}/{MANIFEST_KEY}"]
    labels = {**query.labels(), COMPONENT: driver.tier, ROLE: DRIVER}
    if driver.subgroup is not None:
        args += ["--subgroup", driver.subgroup]
        labels[SUBGROUP] = driver.subgroup
    digests = _digests(query, driver, manifest, mounts, installation)
    mounted, volumes = mounts_of(mounts), volumes_of(mounts)
    mounted.append({"name": "query", "mountPath": QUERY_FOLDER, "readOnly": True})
    volumes.append({"name": "query", "configMap": {"name": query.manifest}})
    if driver.executors:
        mounted.append({"name": "spark", "mountPath": SPARK_FOLDER, "readOnly": True})
        volumes.append({"name": "spark", "configMap": {"name": query.spark(driver.tier)}})
    memory = f"{driver.memory_bytes // MIB}Mi"
    image = driver.pods.image or installation.images.spark
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod_name(query, driver, attempt),
            "namespace": query.namespace,
            "labels": labels,
            "annotations": {
                SPEC_HASH: spec_hash,
                ATTEMPT: str(attempt),
                GENERATION: str(generation),
                IMAGE: image,
                **({SECRETS: str(query.secrets)} if driver.executors else {}),
            },
            "ownerReferences": [owner],
        },
        "spec": {
            "restartPolicy": "Never",
            "serviceAccountName": query.driver_account,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": GRACE_S,
            "nodeSelector": driver.pods.node_selector,
            "tolerations": tolerations_of(driver.pods.tolerations),
            "securityContext": pod_security(),
            **pulling(installation.images),
            "containers": [
                {
                    "name": "driver",
                    "image": image,
                    "imagePullPolicy": installation.images.pull_policy,
                    "args": args,
                    "workingDir": HOME,
                    "env": _environment(query, driver, digests, installation),
                    "ports": [
                        {"name": "status", "containerPort": STATUS_PORT},
                        {"name": "metrics", "containerPort": METRICS_PORT},
                    ],
                    "resources": {
                        "requests": {"cpu": f"{driver.driver_cpu}m", "memory": memory},
                        "limits": {"memory": memory},
                    },
                    **_probes(),
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "securityContext": container_security(),
                    "volumeMounts": mounted,
                }
            ],
            "volumes": volumes,
        },
    }


def _probes() -> dict[str, object]:
    """Spark's start takes some ten seconds of CPU, and a busy node may give a pod a tenth of one. What a driver waits
    for is said within half a minute: it knows after 15 s, of which it is asked every 10 s, and these are 6 s more."""
    alive = {"httpGet": {"path": "/alive", "port": STATUS_PORT}, "timeoutSeconds": 5}
    return {
        "startupProbe": {**alive, "periodSeconds": 3, "failureThreshold": STARTS_S // 3},
        "livenessProbe": {**alive, "periodSeconds": 10, "failureThreshold": 6},
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": STATUS_PORT},
            "timeoutSeconds": 3,
            "periodSeconds": 2,
            "failureThreshold": 3,
        },
    }


def _digests(
    query: QueryName, driver: Driver, manifest: str, mounts: Mounts, installation: Installation
) -> dict[str, str]:
    """Of what is mounted: its node may know what stood there before, and a driver reads it once."""
    found = {MANIFEST_DIGEST: digest_of(manifest)}
    if driver.executors:
        texts = spark(query, driver, mounts, installation.images)["data"]
        found[SPARK_DIGEST] = digest_of(*(texts[name] for name in SPARK_FILES))
    return found


def _environment(
    query: QueryName, driver: Driver, digests: Mapping[str, str], installation: Installation
) -> list[dict[str, object]]:
    fields = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_IP": "status.podIP"}
    values = {
        "BICLIQUE_PREFIX": query.id,
        "BICLIQUE_CONTROL": f"{CONTROL_IN_KUBERNETES}{query.namespace}/{query.routing}",
        "BICLIQUE_SECRETS": SECRETS_FOLDER,
        "BICLIQUE_VOLUMES": VOLUMES_FOLDER,
        "BICLIQUE_STATUS_PORT": str(STATUS_PORT),
        "HOME": HOME,
        **digests,
    }
    if driver.executors:
        values["BICLIQUE_MASTER"] = "k8s://https://kubernetes.default.svc"
        values["SPARK_CONF_DIR"] = SPARK_FOLDER
    about = {
        "k8s.namespace.name": query.namespace,
        "k8s.pod.name": "$(POD_NAME)",
        "biclique.query": query.name,
        "biclique.tier": driver.tier,
    }
    values |= dict(installation.telemetry)
    if values.get("OTEL_METRICS_EXPORTER"):
        values["OTEL_EXPORTER_PROMETHEUS_HOST"] = "0.0.0.0"
    values["OTEL_RESOURCE_ATTRIBUTES"] = ",".join(f"{key}={value}" for key, value in about.items())
    found: list[dict[str, object]] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()
    ]
    found += [{"name": name, "value": value} for name, value in values.items()]
    return found
