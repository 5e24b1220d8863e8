"""Credentials of a cluster: each user's in one file, signed by one authority, made once and for its owner alone."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from infra.cluster.credentials import ADMIN, Credentials, User

SERVER = "https://127.0.0.1:6443"
USERS = (User(ADMIN, "admin", "system:masters"), User("kubelet", "system:node:node1", "system:nodes"))


def made(folder: Path) -> Credentials:
    credentials = Credentials(folder, SERVER, ("localhost", "10.96.0.1"), USERS)
    credentials.make()
    return credentials


def test_a_kubeconfig_has_everything_in_it(tmp_path: Path) -> None:
    credentials = made(tmp_path)
    told = yaml.safe_load(credentials.kubeconfig("kubelet").read_text())
    (cluster,), (user,), (context,) = told["clusters"], told["users"], told["contexts"]
    assert told["current-context"] == context["name"]
    assert context["context"] == {"cluster": cluster["name"], "user": user["name"]}
    assert cluster["cluster"]["server"] == SERVER
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    assert authority == credentials.path("ca.crt").read_bytes()
    certificate = x509.load_pem_x509_certificate(base64.b64decode(user["user"]["client-certificate-data"]))
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
    who = {part.oid: part.value for part in certificate.subject}
    assert who == {NameOID.ORGANIZATION_NAME: "system:nodes", NameOID.COMMON_NAME: "system:node:node1"}


def test_the_server_answers_to_its_names(tmp_path: Path) -> None:
    server = x509.load_pem_x509_certificate(made(tmp_path).path("apiserver.crt").read_bytes())
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(address) for address in names.get_values_for_type(x509.IPAddress)] == ["10.96.0.1"]


def test_they_are_made_once_and_are_nobody_elses(tmp_path: Path) -> None:
    made(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    made(tmp_path)
    assert before == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert not any(path.stat().st_mode & 0o077 for path in tmp_path.iterdir())
