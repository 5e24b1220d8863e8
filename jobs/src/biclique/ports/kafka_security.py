"""SASL and TLS towards Kafka, from a Secret: as librdkafka's settings, and as options of Spark's connector.

| key | other name | means |
| --- | --- | --- |
| `sasl.username`, `sasl.password` | `username`, `password` | who we are; without the first: the Secret's name |
| `sasl.mechanism` | | SCRAM-SHA-512 (the default), SCRAM-SHA-256 or PLAIN |
| `ca.crt` | | who may sign the brokers' certificates; absent: whoever this machine trusts |
| `tls.crt`, `tls.key` | `user.crt`, `user.key` | our own certificate, where brokers ask for one (its key as PKCS #8) |
| `security.protocol` | | SASL_SSL, SSL, SASL_PLAINTEXT or PLAINTEXT; absent: what the other keys say, always with TLS |

Spark's options are seen by many (its plan, its logs, whoever asks the driver), so they hold no secret: they say where
Kafka's own client finds it, in the process that connects (its DirectoryConfigProvider).
"""

from __future__ import annotations

from pathlib import Path

from biclique.ports.secrets import Secret

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
PROTOCOLS = ("SASL_SSL", "SSL", "SASL_PLAINTEXT", "PLAINTEXT")
USERNAME, PASSWORD = ("sasl.username", "username"), ("sasl.password", "password")
CERTIFICATE, KEY = ("tls.crt", "user.crt"), ("tls.key", "user.key")
MODULES = "org.apache.kafka.common.security"
PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"


def client_settings(secret: Secret) -> dict[str, str]:
    """Of librdkafka, with the values in them: for the process that connects, and nobody else."""
    protocol = _protocol(secret)
    settings = {"security.protocol": protocol}
    if "SASL" in protocol:
        settings["sasl.mechanism"] = _mechanism(secret)
        settings["sasl.username"] = secret.text(*USERNAME) or secret.name
        settings["sasl.password"] = secret.needed(*PASSWORD)
    if "SSL" in protocol.removeprefix("SASL"):
        for setting, path in (
            ("ssl.ca.location", secret.path("ca.crt")),
            ("ssl.certificate.location", secret.path(*CERTIFICATE)),
            ("ssl.key.location", secret.path(*KEY)),
        ):
            if path is not None:
                settings[setting] = str(path)
    return settings


def spark_options(secret: Secret) -> dict[str, str]:
    """Of Spark's Kafka source and sink: references. The values are looked at once, so that what the Java client would
    not take is said here and not by it."""
    protocol, folder = _protocol(secret), secret.folder
    if any(character in str(folder) for character in ":}"):
        raise secret.wrong("the Java client takes no reference to a folder with : or } in its name", "move it")
    options = {
        "security.protocol": protocol,
        "config.providers": "secret",
        "config.providers.secret.class": PROVIDER,
        "config.providers.secret.param.allowed.paths": str(folder),
    }
    if "SASL" in protocol:
        mechanism = _mechanism(secret)
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        username = _reference(secret, USERNAME) if secret.path(*USERNAME) is not None else secret.name
        secret.needed(*PASSWORD)
        given = f'username="{username}" password="{_reference(secret, PASSWORD)}"'
        options["sasl.mechanism"] = mechanism
        options["sasl.jaas.config"] = f"{MODULES}.{module} required {given};"
    if "SSL" in protocol.removeprefix("SASL"):
        if (authority := secret.path("ca.crt")) is not None:
            options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority)}
        if secret.path(*CERTIFICATE) is not None:
            options["ssl.keystore.type"] = "PEM"
            options["ssl.keystore.certificate.chain"] = _placeholder(_path(secret, CERTIFICATE))
            options["ssl.keystore.key"] = _placeholder(_path(secret, KEY))
    return {f"kafka.{name}": value for name, value in options.items()}


def _protocol(secret: Secret) -> str:
    given = secret.text("security.protocol")
    if given is not None:
        return _one_of(secret, "security.protocol", given, PROTOCOLS)
    if secret.path(*PASSWORD) is not None:
        return "SASL_SSL"
    if secret.path("ca.crt", *CERTIFICATE) is not None:
        return "SSL"
    raise secret.wrong(f"it has none of {PASSWORD[0]}, ca.crt and {CERTIFICATE[0]}", "see docs/data-plane.md")


def _mechanism(secret: Secret) -> str:
    return _one_of(secret, "sasl.mechanism", secret.text("sasl.mechanism") or MECHANISMS[0], MECHANISMS)


def _one_of(secret: Secret, key: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise secret.wrong(f"its key {key} is none of {', '.join(known)}", "write one of them")
    return value


def _reference(secret: Secret, keys: tuple[str, ...]) -> str:
    """Into a quoted word of JAAS, which has no way to say that what is referred to is not to be read as JAAS."""
    value = secret.needed(*keys)
    if '"' in value or "\\" in value:
        raise secret.wrong(
            f"its key {keys[0]} has a quote or a backslash, which the Java client takes no way", "change it"
        )
    return _placeholder(_path(secret, keys))


def _path(secret: Secret, keys: tuple[str, ...]) -> Path:
    path = secret.path(*keys)
    if path is None:
        raise secret.wrong(f"it has no key {keys[0]}", "add it")
    return path


def _placeholder(path: Path) -> str:
    return f"${{secret:{path.parent}:{path.name}}}"
