"""etcd and the API server: enough to try an operator against the real API, and the first half of the test cluster.

    with api_server(tmp_path) as kubeconfig: ...

starts both on free ports in three seconds, several side by side. There is no node, so no pod runs, and without
`controllers` nobody collects garbage, ends a namespace or counts a budget; a pod can be created, its status patched,
and deleted at once.
"""

from __future__ import annotations

import http.client
import ssl
import subprocess
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra import processes
from infra.cluster.binaries import program
from infra.cluster.credentials import ADMIN, Credentials, User
from infra.services import Service

SERVICES = "10.96.0.0/16"
FIRST_SERVICE = "10.96.0.1"  # the API server's own, as pods know it
NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
CONTROLLERS = User("controllers", "system:kube-controller-manager")
STOP_LIMIT_S = 5.0

Answers = Callable[[], bool]


@dataclass(frozen=True)
class Ports:
    """`controllers`: of their health."""

    api: int = 6443
    etcd: int = 2379
    etcd_peers: int = 2380
    controllers: int = 10257

    @classmethod
    def free(cls) -> Ports:
        return cls(*(processes.free_port() for _ in range(4)))


@dataclass(frozen=True)
class ControlPlane:
    """`address`: at which pods reach the API server; this machine's own programs take 127.0.0.1."""

    folder: Path
    ports: Ports = Ports()
    address: str = "127.0.0.1"
    users: tuple[User, ...] = ()
    pods: str = "10.88.0.0/16"

    @property
    def credentials(self) -> Credentials:
        users = (User(ADMIN, "admin", "system:masters"), CONTROLLERS, *self.users)
        hosts = (*NAMES, "127.0.0.1", FIRST_SERVICE, self.address)
        return Credentials(self.folder / "credentials", f"https://127.0.0.1:{self.ports.api}", hosts, users)

    @property
    def kubeconfig(self) -> Path:
        return self.credentials.kubeconfig(ADMIN)

    @property
    def etcd(self) -> Service:
        url, peers = f"http://127.0.0.1:{self.ports.etcd}", f"http://127.0.0.1:{self.ports.etcd_peers}"
        options = {
            "data-dir": "data",
            "listen-client-urls": url,
            "advertise-client-urls": url,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "log-level": "warn",
            "unsafe-no-fsync": "true",  # a test cluster that the machine loses is made anew
        }
        return self.service("etcd", options, url, lambda: answers_http(f"{url}/health"))

    @property
    def api(self) -> Service:
        pki = self.credentials.path
        options = {
            "etcd-servers": f"http://127.0.0.1:{self.ports.etcd}",
            "secure-port": self.ports.api,
            "advertise-address": self.address,
            "endpoint-reconciler-type": "none" if self.address == "127.0.0.1" else "master-count",
            "service-cluster-ip-range": SERVICES,
            "tls-cert-file": pki("apiserver.crt"),
            "tls-private-key-file": pki("apiserver.key"),
            "client-ca-file": pki("ca.crt"),
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": pki("service-accounts.pub"),
            "service-account-signing-key-file": pki("service-accounts.key"),
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "allow-privileged": "true",
            "kubelet-client-certificate": pki(f"{ADMIN}.crt"),
            "kubelet-client-key": pki(f"{ADMIN}.key"),
            "kubelet-preferred-address-types": "InternalIP",
        }
        return self.service("kube-apiserver", options, f"https://{self.address}:{self.ports.api}", self.api_answers)

    @property
    def controllers(self) -> Service:
        pki, kubeconfig = self.credentials.path, self.credentials.kubeconfig(CONTROLLERS.name)
        options = {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "secure-port": self.ports.controllers,
            "service-account-private-key-file": pki("service-accounts.key"),
            "root-ca-file": pki("ca.crt"),
            "use-service-account-credentials": "true",
            "leader-elect": "false",
            "allocate-node-cidrs": "true",
            "cluster-cidr": self.pods,
        }
        health = f"https://127.0.0.1:{self.ports.controllers}/healthz"
        return self.service("kube-controller-manager", options, health, lambda: answers_http(health))

    def service(self, name: str, options: Mapping[str, object], address: str, answers: Answers) -> Service:
        """`options`: of its command line, where a switch is one that is true."""
        folder = self.folder / name

        def start() -> subprocess.Popen[bytes]:
            folder.mkdir(parents=True, exist_ok=True)
            command = [str(program(name)), *(f"--{key}={value}" for key, value in options.items())]
            return processes.start(command, folder, answers)

        return Service(name, folder, address, start, answers)

    def api_answers(self) -> bool:
        """With the namespace that it makes for everybody, a moment after it calls itself ready."""
        try:
            context = ssl.create_default_context(cafile=self.credentials.path("ca.crt"))
            context.load_cert_chain(self.credentials.path(f"{ADMIN}.crt"), self.credentials.path(f"{ADMIN}.key"))
        except FileNotFoundError:
            return False
        paths = ("readyz", "api/v1/namespaces/default")
        return all(answers_http(f"{self.credentials.server}/{path}", context) for path in paths)


@contextmanager
def api_server(folder: Path, controllers: bool = False) -> Iterator[Path]:
    """The admin's kubeconfig, while both run; everything they write is in `folder`. `controllers`: with Kubernetes'
    own, which make a namespace's service account, collect what a deleted object owned and end namespaces."""
    plane = ControlPlane(folder, Ports.free())
    plane.credentials.make()
    started = []
    try:
        for service in (plane.etcd, plane.api, *([plane.controllers] if controllers else [])):
            started.append(service.start())
        yield plane.kubeconfig
    finally:
        for process in reversed(started):
            processes.stop(process, STOP_LIMIT_S)


def answers_http(url: str, context: ssl.SSLContext | None = None) -> bool:
    """Of health alone, unless `context` says otherwise, so whoever answers is believed."""
    try:
        with urllib.request.urlopen(url, timeout=2, context=context or ssl._create_unverified_context()) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False
