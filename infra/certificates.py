"""An authority and a server's certificate of its own, made anew for each pair of servers: nothing secret is kept in
the repository, and nothing of it outlives its folder."""

from __future__ import annotations

import datetime
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

VALID_DAYS = 365


def make_certificates(folder: Path, addresses: tuple[str, ...]) -> None:
    """`ca.crt`, `server.crt`, `server.key`, and `server.pem` with key and certificates, as Kafka takes them."""
    authority_key, server_key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority_name = _name("Biclique test authority")
    authority = (
        _certificate(authority_name, authority_name, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    server = (
        _certificate(_name("Biclique test server"), authority_name, server_key.public_key())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    key = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain = server.public_bytes(Encoding.PEM), authority.public_bytes(Encoding.PEM)
    write_private(folder / "ca.crt", chain[1])
    write_private(folder / "server.crt", chain[0])
    write_private(folder / "server.key", key)
    write_private(folder / "server.pem", key + chain[0] + chain[1])


def write_private(path: Path, data: bytes) -> None:
    """For this user's eyes only, from its first byte on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
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
