"""A driver whose executors are pods, against a real Kubernetes API without a node: what Spark asks for, since there it
is only written down, and whom it lets in. That the pods run is shown on a cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest
import yaml
from kubernetes import client, config

from biclique_operator.desired.accounts import role
from biclique_operator.desired.executor_pod import ON_KUBERNETES
from biclique_operator.desired.names import QueryName
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import MANIFEST, KafkaQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

BACKEND = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
OPTION = "SPARK_JAVA_OPT_"
SPACE, SECRET = "default", b"0123456789abcdef" * 2
EXECUTORS = MANIFEST.replace("topics: ", "tiers: {{executors: 2}}\n  topics: ").replace(
    "partitions: 2", "partitions: 3"
)
DEFAULTS = """\
spark.kubernetes.container.image localhost/biclique-spark:dev
spark.kubernetes.executor.podTemplateFile {folder}/executor.yaml
spark.kubernetes.executor.podTemplateContainerName executor
spark.kubernetes.executor.request.cores 300m
spark.executor.memory 512m
spark.executor.memoryOverhead 700m
spark.authenticate true
spark.authenticate.secret.file {folder}/secret
"""
TEMPLATE = """\
apiVersion: v1
kind: Pod
metadata: {labels: {biclique.dev/role: executor}}
spec:
  automountServiceAccountToken: false
  containers: [{name: executor, workingDir: /var/lib/biclique, env: [{name: JAVA_TOOL_OPTIONS, value: MASTER}]}]
"""


@pytest.fixture
def driver(kubernetes_api: Path) -> Iterator[client.V1Pod]:
    """The pod that Spark takes the driver's process for."""
    api = client.CoreV1Api(config.new_client_from_config(str(kubernetes_api)))
    name = f"q{uuid.uuid4().hex[:8]}-dispatcher-1"
    body: dict[str, Any] = {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "driver", "image": "none"}], "restartPolicy": "Never"},
    }
    if not any(found.metadata.name == "default" for found in api.list_namespaced_service_account(SPACE).items):
        api.create_namespaced_service_account(SPACE, {"metadata": {"name": "default"}})
    yield api.create_namespaced_pod(SPACE, body)
    api.delete_collection_namespaced_pod(SPACE, grace_period_seconds=0)


def test_what_a_driver_asks_for(
    kafka_server: KafkaServer,
    redis_server: RedisServer,
    kubernetes_api: Path,
    routing_config_map: str,
    driver: client.V1Pod,
    tmp_path: Path,
) -> None:
    query = KafkaQuery(kafka_server, redis_server, tmp_path, control=routing_config_map, template=EXECUTORS)
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS.format(folder=tmp_path))
    (tmp_path / "executor.yaml").write_text(TEMPLATE.replace("MASTER", ON_KUBERNETES))
    (tmp_path / "secret").write_bytes(SECRET)
    api = client.CoreV1Api(config.new_client_from_config(str(kubernetes_api)))
    server = api.api_client.configuration.host
    name = driver.metadata.name
    try:
        query.start(
            "dispatcher",
            BICLIQUE_MASTER=f"k8s://{server}",
            BICLIQUE_STATUS_PORT="0",
            SPARK_CONF_DIR=str(tmp_path),
            KUBECONFIG=str(with_rights(kubernetes_api, api, routing_config_map, tmp_path)),
            POD_NAME=name,
            POD_NAMESPACE=SPACE,
            POD_IP="127.0.0.1",
            OTEL_RESOURCE_ATTRIBUTES=f"biclique.query=q,k8s.pod.name={name}",
        )
        pods = executors(api, name, query)
        assert sorted(pod.metadata.name for pod in pods) == [f"{name}-exec-1", f"{name}-exec-2"]
        for pod in pods:
            (container,) = pod.spec.containers
            environment = {each.name: each.value for each in container.env}
            assert [(owner.kind, owner.name) for owner in pod.metadata.owner_references] == [("Pod", name)]
            assert pod.metadata.labels["biclique.dev/role"] == "executor"
            assert pod.spec.automount_service_account_token is False
            assert container.resources.requests == {"cpu": "300m", "memory": "1212Mi"}
            assert container.resources.limits == {"memory": "1212Mi"}
            assert environment["SPARK_EXECUTOR_CORES"] == "2", "three units, two executors"
            assert environment["OTEL_RESOURCE_ATTRIBUTES"] == "biclique.query=q"
            assert "_SPARK_AUTH_SECRET" not in environment, "a pod's specification is for many to read"
            assert "spark.authenticate=true" in " ".join(filter(None, environment.values()))
            assert environment["SPARK_DRIVER_URL"].endswith("@127.0.0.1:7078")
        first = {each.name: each.value or "" for each in pods[0].spec.containers[0].env}
        stranger = executor(first, name, tmp_path / "stranger", b"another secret")
        assert stranger.wait(60) != 0, "it is not let in"
        assert not running(query), "and is given nothing to do"
        second = {each.name: each.value or "" for each in pods[1].spec.containers[0].env}
        both = [
            executor(told, name, tmp_path / folder, SECRET) for told, folder in ((first, "known"), (second, "known-2"))
        ]
        try:
            deadline = time.monotonic() + 90
            while not running(query):
                assert time.monotonic() < deadline, (tmp_path / "known" / "log").read_text()
                time.sleep(0.5)
            # While they are there: units that nobody hears of any more are waited for, and most of its time is over.
            query.processes["dispatcher"].terminate()
            assert query.exit_of("dispatcher", 20) == 0, query.log_of("dispatcher")
        finally:
            for process in both:
                process.kill()
                process.wait()
        assert not executors_of(api, name), "they go with their driver"
        assert "orbidden" not in whole_log(query), "a driver's rights are all that Spark asks for"
    finally:
        query.stop()


def executor(environment: Mapping[str, str], name: str, folder: Path, secret: bytes) -> subprocess.Popen[bytes]:
    """As images/spark/start begins one, with what its pod says; but that this `secret` is mounted."""
    folder.mkdir()
    (folder / "secret").write_bytes(secret)
    told = {
        key: value.replace(str(folder.parent / "secret"), str(folder / "secret")) for key, value in environment.items()
    }
    numbers = sorted(int(key.removeprefix(OPTION)) for key in told if key.startswith(OPTION))
    home = Path(pyspark.__file__).parent
    asked = {
        "driver-url": told["SPARK_DRIVER_URL"],
        "executor-id": told["SPARK_EXECUTOR_ID"],
        "cores": told["SPARK_EXECUTOR_CORES"],
        "app-id": told["SPARK_APPLICATION_ID"],
        "hostname": "127.0.0.1",
        "resourceProfileId": told["SPARK_RESOURCE_PROFILE_ID"],
        "podName": name,
    }
    command = ["java", *(told[f"{OPTION}{number}"] for number in numbers), "-cp", f"{home}/jars/*", BACKEND]
    command += [word for key, value in asked.items() for word in (f"--{key}", value)]
    here = {**os.environ, **told, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(command, env=here, cwd=folder, stdout=log, stderr=log, start_new_session=True)


def running(query: KafkaQuery) -> list[str]:
    """Units that have told their driver that they run."""
    port = re.search(r"status is served at port (\d+)", whole_log(query))
    assert port is not None
    with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/status", timeout=5) as answer:
        return [name for name, unit in json.load(answer)["units"].items() if unit["state"] == "runs"]


def whole_log(query: KafkaQuery) -> str:
    return (query.folder / "dispatcher.log").read_text(errors="replace")


def with_rights(kubeconfig: Path, api: client.CoreV1Api, control: str, folder: Path) -> Path:
    """As a driver's pod has it: a token, since Java reads no private key of the kind that is in ours; of an account
    with the rights that the operator gives."""
    name = f"driver-{uuid.uuid4().hex[:8]}"
    api.create_namespaced_service_account(SPACE, {"metadata": {"name": name}})
    routing, pods = role(QueryName("q", SPACE, name), executors=True)["rules"]  # type: ignore[misc]
    routing = {**routing, "resourceNames": [control.rpartition("/")[2]]}
    rights = client.RbacAuthorizationV1Api(api.api_client)
    rights.create_namespaced_role(SPACE, {"metadata": {"name": name}, "rules": [routing, pods]})
    subject = {"kind": "ServiceAccount", "namespace": SPACE, "name": name}
    referred = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    rights.create_namespaced_role_binding(
        SPACE, {"metadata": {"name": name}, "subjects": [subject], "roleRef": referred}
    )
    token = api.create_namespaced_service_account_token(name, SPACE, {"spec": {"expirationSeconds": 3600}})
    known = yaml.safe_load(kubeconfig.read_text())
    known["users"][0]["user"] = {"token": token.status.token}
    (folder / "kubeconfig").write_text(yaml.safe_dump(known))
    return folder / "kubeconfig"


def executors(api: client.CoreV1Api, driver: str, query: KafkaQuery) -> list[client.V1Pod]:
    deadline = time.monotonic() + 90
    while len(found := executors_of(api, driver)) < 2:
        assert time.monotonic() < deadline, query.log_of("dispatcher")
        time.sleep(0.2)
    return found


def executors_of(api: client.CoreV1Api, driver: str) -> list[client.V1Pod]:
    pods = api.list_namespaced_pod(SPACE).items
    return [pod for pod in pods if pod.metadata.name.startswith(f"{driver}-exec-")]
