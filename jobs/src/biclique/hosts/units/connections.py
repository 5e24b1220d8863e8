"""Kafka and the checkpoint store as a process of a tier connects to them: here references become credentials, in the
process that uses them, and go no further."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.credentials import CredentialProvider

from biclique.hosts.units.spec import Surroundings
from biclique.ports.folder_objects import FolderObjects
from biclique.ports.kafka_log import KafkaSettings
from biclique.ports.kafka_security import client_settings, spark_options
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.object_store import ObjectStore
from biclique.ports.patient_store import Patience, PatientStore
from biclique.ports.redis_store import CALL_S, RedisStore, connected
from biclique.ports.s3_objects import S3Objects
from biclique.ports.secrets import Secret, secret_of
from biclique.query.errors import QueryError
from biclique.query.model import Bucket, Kafka, Query, Volume

BUCKET_CALL_S = 15.0  # two attempts of the client's
VOLUME_CALL_S = 15.0  # of a network's disk, which flushes


def kafka_settings(around: Surroundings, attempt: int = 0) -> KafkaSettings:
    client: dict[str, Any] = dict(around.kafka)
    if around.kafka_secret is not None:
        client |= client_settings(secret_of(around.secrets, around.kafka_secret))
    return KafkaSettings(client, around.prefix, attempt)


def source_topics(around: Surroundings, query: Query) -> SourceTopics:
    of_topics = [number for number, source in enumerate(query.sources) if isinstance(source.input, Kafka)]
    return SourceTopics(query, {number: source_client(around, query, number) for number in of_topics})


def source_client(around: Surroundings, query: Query, number: int) -> dict[str, Any]:
    source = query.sources[number].input
    assert isinstance(source, Kafka)
    client: dict[str, Any] = {**around.kafka, "bootstrap.servers": _servers(around, query, source)}
    return client if source.secret is None else client | client_settings(secret_of(around.secrets, source.secret))


def _servers(around: Surroundings, query: Query, source: Kafka) -> str:
    """Of the query's own Kafka, which is the first source's, or of the source's own."""
    first = query.sources[0].input
    same = isinstance(first, Kafka) and first.bootstrap_servers == source.bootstrap_servers
    return str(around.kafka.get("bootstrap.servers", source.bootstrap_servers)) if same else source.bootstrap_servers


def spark_sources(around: Surroundings, query: Query) -> list[dict[str, str]]:
    """Each source may be read by a user of its own."""
    found = []
    for source in query.sources:
        assert isinstance(source.input, Kafka)
        found.append(_spark(around, source.input.secret, _servers(around, query, source.input)))
    return found


def spark_sink(around: Surroundings) -> dict[str, str]:
    return _spark(around, around.kafka_secret, str(around.kafka["bootstrap.servers"]))


class FromSecret(CredentialProvider):
    """Who connects is asked for with every connection: a password that is changed in the Secret, as Kubernetes changes
    it under a running pod, is taken without a restart."""

    def __init__(self, secret: Secret) -> None:
        self._secret = secret

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        try:
            password, user = self._secret.needed("password"), self._secret.text("username")
        except QueryError as wrong:
            raise redis.AuthenticationError(str(wrong)) from None
        return (password,) if user is None else (user, password)


def redis_store(around: Surroundings, life: str = "") -> RedisStore:
    security: dict[str, Any] = {}
    if around.redis_secret is not None:
        secret = secret_of(around.secrets, around.redis_secret)
        secret.needed("password")  # said at the start, and not with the first checkpoint
        security["credential_provider"] = FromSecret(secret)
        if urlsplit(around.redis).scheme == "rediss":
            paths = {"ssl_ca_certs": "ca.crt", "ssl_certfile": "tls.crt", "ssl_keyfile": "tls.key"}
            security |= {setting: str(path) for setting, key in paths.items() if (path := secret.path(key)) is not None}
    return RedisStore(connected(around.redis, **security), _named(around, life))


def bucket_of(around: Surroundings, bucket: Bucket) -> S3Objects:
    """Keys come from the Secret; without one, from wherever this machine has them."""
    import boto3  # a second's worth of modules, for those who have a bucket
    from botocore.config import Config

    keys: dict[str, str] = {}
    if bucket.secret is not None:
        secret = secret_of(around.secrets, bucket.secret)
        keys["aws_access_key_id"] = secret.needed("AWS_ACCESS_KEY_ID", "accessKeyId", "access-key")
        keys["aws_secret_access_key"] = secret.needed("AWS_SECRET_ACCESS_KEY", "secretAccessKey", "secret-key")
    limits = Config(connect_timeout=CALL_S, read_timeout=CALL_S, retries={"total_max_attempts": 2})
    client = boto3.client("s3", endpoint_url=bucket.endpoint, region_name=bucket.region, config=limits, **keys)
    return S3Objects(client, bucket.name)


def volume_of(around: Surroundings, volume: Volume) -> FolderObjects:
    """A claim is mounted under its own name, as a Secret is."""
    if not around.volumes:
        problem = f"state.durable.volume names the claim {volume.claim}, and this setting is missing"
        raise QueryError("BICLIQUE_VOLUMES", problem, "set it to the folder in which each claim is mounted by its name")
    mounted = Path(around.volumes).absolute() / volume.claim
    if not mounted.is_dir():
        remedy = "mount it there, or correct spec.state.durable.volume.claimName"
        raise QueryError(f"claim {volume.claim}", f"there is none at {mounted}", remedy)
    return FolderObjects(mounted / volume.path)


def _named(around: Surroundings, life: str) -> str:
    return f"{around.prefix}@{life}" if life else around.prefix


def checkpoint_store(around: Surroundings, query: Query, who: str, life: str) -> PatientStore:
    """`who`: asks, for the log. `life`: the identity of the topic that all state in it was made of. A query that begins
    anew in topics of the same names has the same units, and epochs go by the clock: without it, it would take the
    checkpoints of the one before for its own."""
    # A call of these two that is given up ends by the time-outs of its own.
    if isinstance(query.durable, Bucket):
        bucket = ObjectStore(bucket_of(around, query.durable), f"{query.durable.prefix}{_named(around, life)}")
        name = f"{who}, bucket {query.durable.name}"
        return PatientStore(bucket, name, lambda: None, Patience(call_s=BUCKET_CALL_S))
    if isinstance(query.durable, Volume):
        volume = ObjectStore(volume_of(around, query.durable), _named(around, life))
        name = f"{who}, claim {query.durable.claim}"
        return PatientStore(volume, name, lambda: None, Patience(call_s=VOLUME_CALL_S))
    found = redis_store(around, life)
    return PatientStore(found, f"{who}, Redis at {found.address}", found.cut)


def _spark(around: Surroundings, secret: str | None, servers: str) -> dict[str, str]:
    brokers = {"kafka.bootstrap.servers": servers}
    return brokers if secret is None else brokers | spark_options(secret_of(around.secrets, secret))
