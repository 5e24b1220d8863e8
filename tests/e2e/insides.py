"""What goes on inside a query's pods: how much memory they hold, and whether they compiled what their image has."""

from __future__ import annotations

import json

from tests.e2e.kube import Kube

GIB = 1 << 30
KEPT, USED = "/opt/biclique/kernels", "/tmp/biclique-kernels"


def memory_of(kube: Kube, selector: str) -> dict[str, int]:
    """Bytes by pod, as the kubelet counts what a node must hold for it: all but what it may forget at any time."""
    pods = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in kube.objects("pods", f"--selector={selector}")}
    found: dict[str, int] = {}
    for node in set(pods.values()):
        for pod in json.loads(kube.said("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))["pods"]:
            name, namespace = pod["podRef"]["name"], pod["podRef"]["namespace"]
            if namespace == kube.namespace and name in pods:
                found[name] = sum(container["memory"]["workingSetBytes"] for container in pod["containers"])
    assert found.keys() == pods.keys(), "the kubelet has counted each of them"
    return found


def compiled_by(kube: Kube, query: str) -> dict[str, str]:
    """By pod, what it has beside its image's compiled kernels, or in place of one of them: whatever numba does not find
    as it is there it compiles, and keeps. Empty: none has compiled anything."""
    found: dict[str, str] = {}
    for pod in kube.objects("pods", f"--selector=biclique.dev/query={query}"):
        name = pod["metadata"]["name"]
        done = kube.tried("exec", name, "--", "diff", "--brief", "--recursive", KEPT, USED)
        assert (done.returncode, bool(done.stdout)) in ((0, False), (1, True)), done.stderr  # 1 is kubectl's word, too
        if done.stdout:
            found[name] = done.stdout
    return found
