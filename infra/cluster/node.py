"""The test cluster: a control plane, and on the same machine one node with a real kubelet and containerd.

Everything it writes is below one folder; `down` ends what runs there and leaves nothing. Ports are Kubernetes' usual
ones, as there is one such cluster on a machine.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from infra import processes
from infra.cluster import network
from infra.cluster.control_plane import ControlPlane, User, answers_http
from infra.services import Service

NAME = "node1"
USERS = (
    User("scheduler", "system:kube-scheduler"),
    User("kubelet", f"system:node:{NAME}", "system:nodes"),
    User("proxy", "system:kube-proxy"),
    User("dns", "biclique:dns", "system:masters"),
)
PAUSE = "localhost/pause:1"
DOMAIN = "cluster.local"
PLUGINS = Path("/usr/lib/cni")
# Debian's packages, each by a file that says that it is there.
PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "iproute2": "ip",
    "containernetworking-plugins": str(PLUGINS / "bridge"),
}


@dataclass(frozen=True)
class Node:
    folder: Path

    @property
    def plane(self) -> ControlPlane:
        return ControlPlane(self.folder, address=network.ADDRESS, users=USERS, pods=network.PODS)

    @property
    def socket(self) -> Path:
        return self.folder / "containerd" / "containerd.sock"

    @property
    def services(self) -> tuple[Service, ...]:
        """In the order in which they start."""
        plane = self.plane
        first = (plane.etcd, self.containerd, plane.api, plane.controllers)
        return (*first, self.scheduler, self.kubelet, self.proxy, self.dns)

    def prepare(self) -> None:
        """What stands before the first process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        network.up(self.folder)
        network.write_settings(self.folder / "network")
        self.plane.credentials.make()
        (self.folder / "resolv.conf").write_text(f"nameserver {network.ADDRESS}\n")
        for name, text in (
            ("containerd.toml", self._containerd_settings()),
            ("kubelet.yaml", yaml.safe_dump(self._kubelet_settings(), sort_keys=False)),
            ("Corefile", self._dns_settings()),
        ):
            (self.folder / name).write_text(text)

    @property
    def containerd(self) -> Service:
        folder = self.folder / "containerd"

        def start() -> subprocess.Popen[bytes]:
            folder.mkdir(exist_ok=True)
            command = ["containerd", "--config", str(self.folder / "containerd.toml")]
            return processes.start(command, folder, self._containerd_answers)

        return Service("containerd", folder, str(self.socket), start, self._containerd_answers)

    @property
    def scheduler(self) -> Service:
        kubeconfig = self.plane.credentials.kubeconfig("scheduler")
        options = {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
        }
        return self._service("kube-scheduler", options, "https://127.0.0.1:10259/healthz")

    @property
    def kubelet(self) -> Service:
        options = {
            "config": self.folder / "kubelet.yaml",
            "kubeconfig": self.plane.credentials.kubeconfig("kubelet"),
            "hostname-override": NAME,
            "node-ip": network.ADDRESS,
            "root-dir": self.folder / "pods",
        }
        return self._service("kubelet", options, "http://127.0.0.1:10248/healthz")

    @property
    def proxy(self) -> Service:
        options = {
            "kubeconfig": self.plane.credentials.kubeconfig("proxy"),
            "proxy-mode": "iptables",
            "hostname-override": NAME,
            "cluster-cidr": network.PODS,
            "conntrack-max-per-core": 0,  # how many connections it tracks is the machine's affair
            "healthz-bind-address": "127.0.0.1:10256",
        }
        return self._service("kube-proxy", options, "http://127.0.0.1:10256/healthz")

    @property
    def dns(self) -> Service:
        options = {"conf": self.folder / "Corefile"}
        return self.plane.service("coredns", options, f"{network.ADDRESS}:53", _dns_answers)

    def _service(self, name: str, options: dict[str, object], health: str) -> Service:
        return self.plane.service(name, options, health, partial(answers_http, health))

    def _containerd_answers(self) -> bool:
        if not self.socket.exists():
            return False
        return subprocess.run([*self.ctr, "version"], capture_output=True).returncode == 0

    @property
    def ctr(self) -> list[str]:
        return ["ctr", "--address", str(self.socket), "--namespace", "k8s.io"]

    def _containerd_settings(self) -> str:
        """Images come from `load` and from nowhere else. Where a kernel refuses to lower a process's score for running
        out of memory, containerd must not try to."""
        folder = self.folder / "containerd"
        return f"""\
version = 2
root = "{folder / "root"}"
state = "{folder / "state"}"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder / "opt"}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{PLUGINS}"
    conf_dir = "{self.folder / "network" / "settings"}"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        Root = "{folder / "runc"}"
"""

    def _kubelet_settings(self) -> dict[str, object]:
        pki = self.plane.credentials.path
        anybody_known = {"x509": {"clientCAFile": str(pki("ca.crt"))}, "webhook": {"enabled": False}}
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": {**anybody_known, "anonymous": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "tlsCertFile": str(pki("apiserver.crt")),
            "tlsPrivateKeyFile": str(pki("apiserver.key")),
            "rotateCertificates": False,
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "podLogsDir": str(self.folder / "pod-logs"),
            "clusterDNS": [network.ADDRESS],
            "clusterDomain": DOMAIN,
            "resolvConf": str(self.folder / "resolv.conf"),
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": "/",
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            # A small disk that is rather full is no reason to put pods out, and images never come a second time.
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "maxPods": 200,
        }

    def _dns_settings(self) -> str:
        return f"""\
.:53 {{
    bind {network.ADDRESS}
    errors
    kubernetes {DOMAIN} in-addr.arpa {{
        kubeconfig {self.plane.credentials.kubeconfig("dns")} biclique
        pods insecure
    }}
}}
"""


def packages_missing() -> list[str]:
    return [package for package, file in PACKAGES.items() if shutil.which(file) is None]


def _dns_answers() -> bool:
    try:
        with socket.create_connection((network.ADDRESS, 53), timeout=1):
            return True
    except OSError:
        return False
