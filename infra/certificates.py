"""An authority and certificates of its own, made anew for each pair of servers and each cluster: nothing secret is kept
in the repository, and nothing of it outlives its folder."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

VALID_DAYS = 365


@dataclass(frozen=True)
class Issued:
    """As PEM."""

    key: bytes
    certificate: bytes


class Authority:
    """Signs for as long as it is in memory; its key is written nowhere."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        constraint = x509.BasicConstraints(ca=True, path_length=0)
        builder = _builder(self._name, self._name, self._key.public_key())
        self._certificate = builder.add_extension(constraint, critical=True).sign(self._key, hashes.SHA256())

    @property
    def certificate(self) -> bytes:
        return self._certificate.public_bytes(Encoding.PEM)

    def issue(self, name: str, organisation: str = "", hosts: tuple[str, ...] = ()) -> Issued:
        """`hosts`: names and addresses, for a server; without, for a client, whom `name` and `organisation` name."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_name(name, organisation), self._name, key.public_key())
        if hosts:
            names = x509.SubjectAlternativeName([_host(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Issued(private_pem(key), certificate.public_bytes(Encoding.PEM))


def make_certificates(folder: Path, addresses: tuple[str, ...]) -> None:
    """`ca.crt`, `server.crt`, `server.key`, and `server.pem` with key and certificates, as Kafka takes them."""
    authority = Authority("Biclique test authority")
    server = authority.issue("Biclique test server", hosts=("localhost", *addresses))
    write_private(folder / "ca.crt", authority.certificate)
    write_private(folder / "server.crt", server.certificate)
    write_private(folder / "server.key", server.key)
    write_private(folder / "server.pem", server.key + server.certificate + authority.certificate)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_private(path: Path, data: bytes) -> None:
    """For this user's eyes only, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _name(text: str, organisation: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation)] if organisation else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )
