"""The API server of `infra.cluster`: several side by side, each what an operator will find on any cluster."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from infra.cluster.binaries import NotBuilt, program
from infra.cluster.control_plane import api_server

pytestmark = pytest.mark.slow

CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: tries.test.biclique.dev}
spec:
  group: test.biclique.dev
  names: {kind: Try, plural: tries}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              properties: {replicas: {type: integer}, name: {type: string}}
              x-kubernetes-validations:
                - {rule: "self.name == oldSelf.name", message: "name cannot change"}
            status: {type: object, properties: {replicas: {type: integer}}}
"""
TRY = {"apiVersion": "test.biclique.dev/v1", "kind": "Try", "metadata": {"name": "it"}}


def kubectl(kubeconfig: Path, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(program("kubectl")), "--kubeconfig", str(kubeconfig), *words]
    return subprocess.run(command, input=given, capture_output=True, text=True, timeout=60, check=False)


def applied(kubeconfig: Path, manifest: str) -> subprocess.CompletedProcess[str]:
    return kubectl(kubeconfig, "apply", "--server-side", "--filename", "-", given=manifest)


@pytest.fixture(autouse=True)
def built() -> None:
    try:
        program("kube-apiserver")
    except NotBuilt as reason:
        pytest.skip(f"needs Kubernetes' API server: {reason}")


def test_two_side_by_side(tmp_path: Path) -> None:
    with api_server(tmp_path / "one") as one, api_server(tmp_path / "two") as two:
        assert kubectl(one, "create", "namespace", "here").returncode == 0
        assert kubectl(one, "get", "namespace", "here").returncode == 0
        assert kubectl(two, "get", "namespace", "here").returncode == 1
    commands = [" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])]
    assert not [command for command in commands if str(tmp_path) in command]


def test_resources_of_our_own(tmp_path: Path) -> None:
    with api_server(tmp_path) as kubeconfig:
        assert applied(kubeconfig, CRD).returncode == 0
        established = ["wait", "--for=condition=Established", "crd/tries.test.biclique.dev", "--timeout=20s"]
        assert kubectl(kubeconfig, *established).returncode == 0
        assert applied(kubeconfig, json.dumps({**TRY, "spec": {"name": "a", "replicas": 1}})).returncode == 0
        refused = applied(kubeconfig, json.dumps({**TRY, "spec": {"name": "b", "replicas": 1}}))
        assert "name cannot change" in refused.stderr
        assert kubectl(kubeconfig, "scale", "tries/it", "--replicas=3").returncode == 0
        assert kubectl(kubeconfig, "get", "tries/it", "--output=jsonpath={.spec.replicas}").stdout == "3"


def test_with_controllers_a_namespace_gets_its_account_and_ends(tmp_path: Path) -> None:
    with api_server(tmp_path, controllers=True) as kubeconfig:
        assert kubectl(kubeconfig, "create", "namespace", "here").returncode == 0
        account = ["wait", "--for=create", "serviceaccount/default", "--namespace=here", "--timeout=30s"]
        assert kubectl(kubeconfig, *account).returncode == 0
        began = time.monotonic()
        assert kubectl(kubeconfig, "delete", "namespace", "here", "--timeout=50s").returncode == 0
        assert time.monotonic() - began < 50
