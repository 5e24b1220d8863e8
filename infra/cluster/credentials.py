"""Who may do what in a cluster of ours: an authority made anew, and a kubeconfig for each part of it.

    <folder>/ca.crt                         the authority
    <folder>/apiserver.crt, .key            the API server's own, also with the kubelet
    <folder>/service-accounts.key, .pub     with which it signs the tokens of pods
    <folder>/<user>.kubeconfig              with everything in it: a copy of the file is enough

Groups are what Kubernetes' own rules know: an admin is in system:masters, the node in system:nodes.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path

import yaml
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from infra.certificates import Authority, Issued, private_pem, write_private

ADMIN = "admin"


@dataclass(frozen=True)
class User:
    name: str
    subject: str
    group: str = ""


@dataclass(frozen=True)
class Credentials:
    folder: Path
    server: str
    hosts: tuple[str, ...]
    users: tuple[User, ...]

    def path(self, name: str) -> Path:
        return self.folder / name

    def kubeconfig(self, user: str) -> Path:
        return self.folder / f"{user}.kubeconfig"

    def make(self) -> None:
        """Once: those that are there are in use. The admin's kubeconfig comes last, and says that all is there."""
        if self.kubeconfig(ADMIN).exists():
            return
        authority = Authority("Biclique test cluster")
        server = authority.issue("kube-apiserver", hosts=self.hosts)
        signing = ec.generate_private_key(ec.SECP256R1())
        public = signing.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        write_private(self.path("ca.crt"), authority.certificate)
        write_private(self.path("apiserver.crt"), server.certificate)
        write_private(self.path("apiserver.key"), server.key)
        write_private(self.path("service-accounts.key"), private_pem(signing))
        write_private(self.path("service-accounts.pub"), public)
        for user in sorted(self.users, key=lambda user: user.name == ADMIN):
            issued = authority.issue(user.subject, user.group)
            write_private(self.path(f"{user.name}.crt"), issued.certificate)
            write_private(self.path(f"{user.name}.key"), issued.key)
            text = kubeconfig(self.server, authority.certificate, user.name, issued)
            write_private(self.kubeconfig(user.name), text.encode())


def kubeconfig(server: str, authority: bytes, user: str, issued: Issued) -> str:
    name = "biclique"
    cluster = {"server": server, "certificate-authority-data": _inline(authority)}
    credentials = {"client-certificate-data": _inline(issued.certificate), "client-key-data": _inline(issued.key)}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def _inline(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
