"""The test cluster for a person at a terminal: a real Kubernetes of one node on this machine.

    python -m infra.cluster build                  its programs, once: three minutes on two cores
    python -m infra.cluster up                     in seconds; `down` ends it and leaves nothing
    python -m infra.cluster load ARCHIVE NAME      an image from a file, as pods will name it
    export KUBECONFIG=$(python -m infra.cluster kubeconfig)
    export PATH=$(python -m infra.cluster programs):$PATH      kubectl and helm, for a machine that has none

Needs root, as whoever makes networks and containers does; `build` needs Go instead.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from infra import processes, services
from infra.cluster import binaries, network, remains
from infra.cluster.binaries import NotBuilt
from infra.cluster.images import NotLoaded, load, load_pause
from infra.cluster.node import NAME, PAUSE, Node, packages_missing

FOLDER = Path("/var/lib/biclique-cluster")
READY_LIMIT_S = 60
PODS_LIMIT_S = 15
STOP_LIMIT_S = 3.0


def up(node: Node) -> None:
    missing = packages_missing()
    if missing:
        sys.exit(f"The test cluster needs {' '.join(missing)}: install these packages, or let `make cluster-up` do it")
    for name in (*binaries.NAMES, "etcd", "coredns", "pause"):
        binaries.program(name)
    node.prepare()
    services.up(node.services)
    load_pause(node.ctr, PAUSE)
    for condition in ("create", "condition=Ready"):
        waited = _kubectl(node, "wait", f"--for={condition}", f"node/{NAME}", f"--timeout={READY_LIMIT_S}s")
        if waited.returncode:
            log = node.kubelet.folder / "log"
            sys.exit(f"The node did not become ready:\n{waited.stderr}{processes.tail(log)}")
    print(f"Ready; export KUBECONFIG={node.plane.kubeconfig}")


def down(node: Node) -> None:
    """First what would start pods again, then pods, as long as there is a kubelet to end them well; then the rest,
    containerd after the pods that are left."""
    if not node.folder.exists():
        return
    services.down([node.plane.controllers, node.scheduler], STOP_LIMIT_S)
    if node.plane.api.process is not None:
        _kubectl(node, "delete", "pods", "--all", "--all-namespaces", "--now", f"--timeout={PODS_LIMIT_S}s")
    containerd = node.containerd
    services.down([service for service in reversed(node.services) if service.name != containerd.name], STOP_LIMIT_S)
    remains.end_pods(containerd.folder)
    services.down([containerd])
    network.down(node.folder)
    remains.unmount(node.folder)
    remains.remove_packet_rules()
    remains.remove_control_groups()
    remains.remove_log_links(node.folder)
    shutil.rmtree(node.folder)


def status(node: Node) -> None:
    services.status(node.services)
    print(_kubectl(node, "get", "nodes").stdout, end="")


def _kubectl(node: Node, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(binaries.program("kubectl")), "--kubeconfig", str(node.plane.kubeconfig), *words]
    return subprocess.run(command, capture_output=True, text=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m infra.cluster", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="everything that the cluster writes")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("build", "programs", "missing", "up", "down", "status", "kubeconfig"):
        verbs.add_parser(verb)
    loading = verbs.add_parser("load")
    loading.add_argument("archive", type=Path)
    loading.add_argument("name", help="localhost/biclique-spark:dev and the like")
    wanted = parser.parse_args()
    node = Node(wanted.folder.resolve())
    if wanted.verb in ("up", "load", "down") and os.geteuid() != 0:
        sys.exit(f"`{wanted.verb}` makes networks and containers, so it needs root")
    try:
        if wanted.verb == "build":
            print(f"kubectl, helm and the rest: {binaries.build()}")
        elif wanted.verb == "programs":
            print(binaries.program("kubectl").parent)
        elif wanted.verb == "missing":
            print(*packages_missing())
        elif wanted.verb == "up":
            up(node)
        elif wanted.verb == "load":
            load(node.ctr, wanted.archive, wanted.name)
        elif wanted.verb == "down":
            down(node)
        elif wanted.verb == "status":
            status(node)
        else:
            print(node.plane.kubeconfig)
    except (NotBuilt, NotLoaded, processes.DidNotStart) as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()
