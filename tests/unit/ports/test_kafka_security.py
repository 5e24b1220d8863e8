"""What a Secret's keys become: settings for librdkafka with the values in them, and options for Spark without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from biclique.ports.kafka_log import KafkaSettings
from biclique.ports.kafka_security import client_settings, spark_options
from biclique.ports.secrets import Secret, secret_of
from biclique.query.errors import QueryError

HUSH = "s3cret+/=-word"
WHO = {"sasl.username": "joe", "sasl.password": HUSH}


def of(folder: Path, keys: dict[str, str], name: str = "kafka-user") -> Secret:
    (folder / name).mkdir()
    for key, value in keys.items():
        (folder / name / key).write_text(value)
    return secret_of(str(folder), name)


def test_a_password_goes_by_scram_over_tls_unless_the_secret_says_otherwise(tmp_path: Path) -> None:
    secret = of(tmp_path, {**WHO, "ca.crt": "-----BEGIN"})
    assert client_settings(secret) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "joe",
        "sasl.password": HUSH,
        "ssl.ca.location": str(tmp_path / "kafka-user" / "ca.crt"),
    }


def test_what_a_log_is_made_with_does_not_show_the_values(tmp_path: Path) -> None:
    settings = KafkaSettings(client_settings(of(tmp_path, WHO)), "q")
    assert HUSH in settings.client.values()
    assert HUSH not in f"{settings!r} {settings}"


def test_spark_is_told_where_the_secret_is_and_not_what_it_is(tmp_path: Path) -> None:
    secret = of(tmp_path, {**WHO, "ca.crt": "-----BEGIN", "tls.crt": "-----BEGIN", "tls.key": HUSH})
    options = spark_options(secret)
    folder = tmp_path / "kafka-user"
    assert options["kafka.sasl.jaas.config"] == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="${{secret:{folder}:sasl.username}}" password="${{secret:{folder}:sasl.password}}";'
    )
    assert options["kafka.ssl.truststore.location"] == str(folder / "ca.crt")
    assert options["kafka.ssl.keystore.key"] == f"${{secret:{folder}:tls.key}}"
    assert options["kafka.config.providers.secret.param.allowed.paths"] == str(folder)
    assert not any(HUSH in value for value in options.values())


@pytest.mark.parametrize(
    ("keys", "settings"),
    [
        ({"username": "joe", "password": HUSH, "sasl.mechanism": "PLAIN"}, {"sasl.mechanism": "PLAIN"}),
        ({"password": HUSH}, {"sasl.username": "kafka-user", "sasl.password": HUSH}),
        ({**WHO, "security.protocol": "SASL_PLAINTEXT"}, {"security.protocol": "SASL_PLAINTEXT"}),
        ({"ca.crt": "-----BEGIN"}, {"security.protocol": "SSL"}),
        ({"user.crt": "-----BEGIN", "user.key": "-----BEGIN"}, {"security.protocol": "SSL"}),
    ],
    ids=["basic-auth", "strimzi", "without TLS", "TLS alone", "certificate"],
)
def test_customary_secrets_are_understood(tmp_path: Path, keys: dict[str, str], settings: dict[str, str]) -> None:
    secret = of(tmp_path, keys)
    assert settings.items() <= client_settings(secret).items()
    assert spark_options(secret)["kafka.security.protocol"] == client_settings(secret)["security.protocol"]


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"sasl.username": "joe", "ca.crt": "x", "security.protocol": "SASL_SSL"}, "it has no key sasl.password"),
        ({**WHO, "sasl.mechanism": "GSSAPI"}, "its key sasl.mechanism is none of SCRAM-SHA-512, "),
        ({**WHO, "security.protocol": "TLS"}, "its key security.protocol is none of SASL_SSL, "),
        ({"sasl.password": HUSH + "\n"}, "its key sasl.password is empty, or holds a line break"),
        ({"sasl.password": ""}, "its key sasl.password is empty"),
        ({"passwort": HUSH}, "it has none of sasl.password, ca.crt and tls.crt"),
    ],
)
def test_what_is_wrong_with_a_secret_is_one_sentence_without_its_values(
    tmp_path: Path, keys: dict[str, str], said: str
) -> None:
    secret = of(tmp_path, keys)
    for convert in (client_settings, spark_options):
        with pytest.raises(QueryError) as refusal:
            convert(secret)
        assert str(refusal.value).startswith("Secret kafka-user: ")
        assert said in str(refusal.value)
        assert HUSH not in str(refusal.value)


@pytest.mark.parametrize("password", ['a"b', "a\\b"])
def test_a_password_that_java_would_read_as_more_than_a_word_is_refused_where_java_reads_it(
    tmp_path: Path, password: str
) -> None:
    secret = of(tmp_path, {"sasl.password": password})
    assert client_settings(secret)["sasl.password"] == password
    with pytest.raises(QueryError, match=r"sasl\.password has a quote or a backslash"):
        spark_options(secret)


def test_a_secret_that_is_not_there_and_a_folder_that_was_not_named(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match=f"Secret nobody: there is none at {tmp_path}/nobody"):
        secret_of(str(tmp_path), "nobody")
    with pytest.raises(QueryError, match="BICLIQUE_SECRETS: a secretRef names nobody, and this setting is missing"):
        secret_of("", "nobody")
