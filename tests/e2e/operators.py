"""Two operators of one installation: the chart's in its pod, and one as a process of this machine, which comes to the
API by a way that may fall silent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from infra import processes
from tests.chaos.relay import Relay
from tests.e2e.kube import Kube
from tests.operator.process import operator_process, probed, relayed

DEPLOYMENT, ACCOUNT, LEASE = "deployment/biclique-operator", "biclique-operator", "lease/biclique-operator"
BEGINS_S = 60.0
SETTLED_S = 60.0  # a pod has 20 s to end; one that is killed leaves a Lease that runs for 12 s


def operator_pods(operator: Kube) -> list[dict[str, Any]]:
    return operator.objects("pods", "--selector=app.kubernetes.io/name=biclique-operator")


def leader(operator: Kube) -> str:
    """What its process is called, behind the name of its pod; empty: nobody leads."""
    return str(operator.object(LEASE)["spec"].get("holderIdentity") or "")


def leading_pod(operator: Kube) -> dict[str, Any]:
    """The pod that leads and stays, and with it all that are to be there. Behind `helm upgrade --wait` one of the
    replaced pods may still lead on its way out, and for a moment nobody does."""
    deadline = time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        pods, holder = operator_pods(operator), leader(operator)
        wanted = operator.object(DEPLOYMENT)["spec"]["replicas"]
        if len(pods) == wanted and not any("deletionTimestamp" in pod["metadata"] for pod in pods):
            for pod in pods:
                if holder.startswith(f"{pod['metadata']['name']}-"):
                    return pod
        time.sleep(0.2)
    raise AssertionError(f"nobody leads who stays: {leader(operator)!r}\n{operator.story()}")


def until_leads(operator: Kube, name: str, within_s: float) -> float:
    """How long it took."""
    began = time.monotonic()
    while not leader(operator).startswith(f"{name}-"):
        assert time.monotonic() < began + within_s, operator.story()
        time.sleep(0.2)
    return time.monotonic() - began


@contextmanager
def standing_by(operator: Kube, folder: Path) -> Iterator[Relay]:
    """With the rights and the settings of the chart's, and called as its `folder`. At the end it goes as it is asked
    to, and lets its Lease go."""
    folder.mkdir()
    with relayed(_as_the_chart_s(operator, folder), folder) as (relay, kubeconfig):
        port = processes.free_port()
        ports = {"BICLIQUE_HEALTH_PORT": str(port), "OTEL_EXPORTER_PROMETHEUS_PORT": str(processes.free_port())}
        told = {**_settings(operator), "POD_NAMESPACE": operator.namespace, **ports}
        with operator_process(kubeconfig, folder, told) as process:
            deadline = time.monotonic() + BEGINS_S
            while not _is_ready(port):
                assert time.monotonic() < deadline, processes.tail(folder / "log")
                time.sleep(0.2)
            yield relay
            processes.stop(process)


def _as_the_chart_s(operator: Kube, folder: Path) -> Path:
    known = yaml.safe_load(operator.kubeconfig.read_text())
    known["users"][0]["user"] = {"token": operator.said("create", "token", ACCOUNT).strip()}
    path = folder / "own"
    path.write_text(yaml.safe_dump(known))
    return path


def _settings(operator: Kube) -> dict[str, str]:
    (container,) = operator.object(DEPLOYMENT)["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def _is_ready(port: int) -> bool:
    try:
        return probed(port, "readyz")[0] == 200
    except OSError:  # nobody listens yet
        return False
