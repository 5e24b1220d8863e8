"""What a secured Kafka and Redis share: certificates, users, and the Secrets with which clients come in.

    <folder>/tls/                          the servers' own
    <folder>/secrets/<name>/<key>          as BICLIQUE_SECRETS expects them: kafka (SCRAM), kafka-plain, redis
    <folder>/secrets-of-admins/…           the servers' own users, for those who set them up

Everything is made at random when it is first asked for, and stays in the folder.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from infra.certificates import make_certificates, write_private

ADMIN, USER = "admin", "biclique"
SCRAM, MODULES = "SCRAM-SHA-512", "org.apache.kafka.common.security"
# What a store of checkpoints does, and no more.
RIGHTS = "~biclique:* +ping +info +get +set +lrange +evalsha +eval +script|load"
RIGHTS_IN_SCRIPTS = "+lindex +lpush +ltrim +exists +expire +hincrby +hdel +unlink"


@dataclass(frozen=True)
class Security:
    folder: Path
    addresses: tuple[str, ...] = ("127.0.0.1",)

    @property
    def secrets(self) -> Path:
        return self.folder / "secrets"

    @property
    def authority(self) -> Path:
        return self.folder / "tls" / "ca.crt"

    @property
    def server_pem(self) -> Path:
        return self.folder / "tls" / "server.pem"

    def make(self) -> None:
        if self.server_pem.exists():
            return
        make_certificates(self.folder / "tls", self.addresses)
        authority = self.authority.read_bytes()
        password, admin = secrets.token_urlsafe(18).encode(), secrets.token_urlsafe(18).encode()
        redis_password, redis_admin = secrets.token_urlsafe(18).encode(), secrets.token_urlsafe(18).encode()
        user = {"sasl.username": USER.encode(), "sasl.password": password, "ca.crt": authority}
        self._write("secrets/kafka", {**user, "sasl.mechanism": SCRAM.encode()})
        self._write("secrets/kafka-plain", {**user, "sasl.mechanism": b"PLAIN"})
        self._write("secrets/redis", {"username": USER.encode(), "password": redis_password, "ca.crt": authority})
        self._write("secrets-of-admins/kafka", {"sasl.password": admin})
        self._write("secrets-of-admins/redis", {"password": redis_admin})

    def _write(self, name: str, values: dict[str, bytes]) -> None:
        for key, value in values.items():
            write_private(self.folder / name / key, value)

    def all_passwords(self) -> set[str]:
        return {path.read_text() for path in self.folder.glob("secrets*/*/*password")}

    # --- Kafka -------------------------------------------------------------------------------------------------------

    def kafka_password(self, admin: bool = False) -> str:
        return (self.folder / ("secrets-of-admins" if admin else "secrets") / "kafka" / "sasl.password").read_text()

    def kafka_client(self, admin: bool = False) -> dict[str, str]:
        """librdkafka's settings; the admin's password is PLAIN: its SCRAM user would have to be made by somebody."""
        return {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority),
            "sasl.mechanism": "PLAIN" if admin else SCRAM,
            "sasl.username": ADMIN if admin else USER,
            "sasl.password": self.kafka_password(admin),
        }

    def kafka_listener(self, name: str) -> dict[str, object]:
        """Of one listener with TLS and both kinds of passwords. Who connects to it is named by its user; what nobody
        has restricted is open to each of them."""
        here = f"listener.name.{name.lower()}"
        admin, user = self.kafka_password(admin=True), self.kafka_password()
        plain = f"{MODULES}.plain.PlainLoginModule required"
        users = f'username="{ADMIN}" password="{admin}" user_{ADMIN}="{admin}" user_{USER}="{user}"'
        return {
            f"{here}.ssl.keystore.type": "PEM",
            f"{here}.ssl.keystore.location": self.server_pem,
            f"{here}.ssl.truststore.type": "PEM",
            f"{here}.ssl.truststore.location": self.authority,
            f"{here}.sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
            f"{here}.plain.sasl.jaas.config": f"{plain} {users};",
            f"{here}.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:{ADMIN};User:ANONYMOUS",  # the controller's own listener asks for no name
            "allow.everyone.if.no.acl.found": "true",
        }

    # --- Redis -------------------------------------------------------------------------------------------------------

    def redis_password(self, admin: bool = False) -> str:
        return (self.folder / ("secrets-of-admins" if admin else "secrets") / "redis" / "password").read_text()

    def redis_client(self, admin: bool = False) -> dict[str, str]:
        return {
            "username": ADMIN if admin else USER,
            "password": self.redis_password(admin),
            "ssl_ca_certs": str(self.authority),
        }

    def redis_settings(self, port: int) -> str:
        tls = self.folder / "tls"
        lines = [
            "port 0",
            f"tls-port {port}",
            f"tls-cert-file {tls / 'server.crt'}",
            f"tls-key-file {tls / 'server.key'}",
            f"tls-ca-cert-file {self.authority}",
            "tls-auth-clients no",
            "user default off",
            f"user {ADMIN} on >{self.redis_password(admin=True)} ~* &* +@all",
            f"user {USER} on >{self.redis_password()} {RIGHTS} {RIGHTS_IN_SCRIPTS}",
        ]
        return "\n".join([*lines, ""])
