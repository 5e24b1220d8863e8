"""What deleted queries have left in Kafka and Redis is removed, once both answer, however long that takes: topics that
begin with the query's id and a dot, keys that have it in their braces. The id is made of the query's uid, so nothing of
another query's begins so; the user's own topics are named nowhere here.

What is swept has no pod any more that could make it anew. A bucket or a volume is left as it is: whoever keeps
checkpoints there has rules of his own for how long."""

from __future__ import annotations

import base64
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from biclique.ports.kafka_security import client_settings
from biclique.ports.secrets import Secret
from biclique.query.errors import QueryError
from biclique_operator.cluster import Cluster, NotLeading, Refused, Unreachable
from biclique_operator.desired.names import QUERY_UID
from biclique_operator.leftovers import Leftover, Leftovers

LOG = logging.getLogger(__name__)
EVERY_S = 20.0  # one read where nothing is left
SAID_AGAIN_S = 3600.0
GIVEN_UP_S = 7 * 24 * 3600.0
KAFKA_S, REDIS_S = 10.0, 5.0
KEYS_AT_ONCE = 500
AT_ONCE = 8
TLS_FILES = {"ssl_ca_certs": "ca.crt", "ssl_certfile": "tls.crt", "ssl_keyfile": "tls.key"}


class CannotSweep(Exception):
    """Not now: the sentence says why."""


class Sweeper:
    def __init__(self, cluster: Cluster, leftovers: Leftovers, now: Callable[[], float] = time.time) -> None:
        self._cluster, self._leftovers, self._now = cluster, leftovers, now
        self._said: dict[str, float] = {}

    def run(self, stopping: threading.Event, leads: Callable[[], bool]) -> None:
        while not stopping.wait(EVERY_S):
            if leads():
                self.sweep_all()

    def sweep_all(self) -> None:
        try:
            # Side by side: each whose Kafka is gone for good takes all the time that it is given to answer.
            with ThreadPoolExecutor(AT_ONCE, "sweeping") as pool:
                list(pool.map(self._sweep, self._leftovers.all()))
        except (Refused, Unreachable, NotLeading) as trouble:
            LOG.info("leftovers could not be looked at: %s", trouble, extra={"event": "sweep.trouble"})

    def _sweep(self, leftover: Leftover) -> None:
        told = {"event": "sweep.done", "query": leftover.query, "prefix": leftover.prefix}
        try:
            if self._has_pods(leftover):
                return  # what still runs would make it anew
            topics, keys = self._sweep_kafka(leftover), self._sweep_redis(leftover)
        except CannotSweep as why:
            self._say_why(leftover, str(why))
            return
        except (Unreachable, NotLeading):
            raise  # that is so for all of them
        except Exception as failure:  # of one leftover, which must neither keep the others nor end the operator
            LOG.exception("%s could not be swept", leftover.prefix, extra={"event": "sweep.failed"})
            self._say_why(leftover, f"{type(failure).__name__}: {failure}")
            return
        LOG.info("%s is swept: %d topics, %d keys", leftover.prefix, topics, keys, extra=told)
        self._leftovers.forget(leftover)

    def _has_pods(self, leftover: Leftover) -> bool:
        try:
            return bool(self._cluster.list("Pod", leftover.namespace, {QUERY_UID: leftover.uid}))
        except Refused as refusal:
            raise CannotSweep(f"the pods of {leftover.namespace} may not be listed ({refusal.code})") from None

    def _say_why(self, leftover: Leftover, why: str) -> None:
        told = {"event": "sweep.waits", "query": leftover.query, "prefix": leftover.prefix}
        if self._now() - leftover.noted_at > GIVEN_UP_S:
            left = f"topics {leftover.prefix}.* and keys biclique:{{{leftover.prefix}}}* remain"
            LOG.warning("a week after %s went, %s: %s", leftover.query, left, why, extra=told)
            self._leftovers.forget(leftover)
        elif self._now() - self._said.get(leftover.prefix, 0.0) > SAID_AGAIN_S:
            self._said[leftover.prefix] = self._now()
            LOG.warning("%s cannot be swept yet: %s", leftover.prefix, why, extra=told)

    # --- Kafka -------------------------------------------------------------------------------------------------------

    def _sweep_kafka(self, leftover: Leftover) -> int:
        with self._secret(leftover.namespace, leftover.kafka_secret) as secret:
            client: dict[str, Any] = {"bootstrap.servers": leftover.bootstrap_servers, "log_level": 0}
            client |= {} if secret is None else client_settings(secret)
            admin = AdminClient(client)
            try:
                found = admin.list_topics(timeout=KAFKA_S).topics
                ours = [name for name in found if name.startswith(f"{leftover.prefix}.")]
                for outcome in admin.delete_topics(ours, request_timeout=KAFKA_S).values() if ours else ():
                    _await_end(outcome)
            except (KafkaException, TimeoutError) as trouble:
                raise CannotSweep(f"Kafka at {leftover.bootstrap_servers}: {trouble}") from None
            return len(ours)

    # --- Redis -------------------------------------------------------------------------------------------------------

    def _sweep_redis(self, leftover: Leftover) -> int:
        if leftover.redis_url is None:
            return 0
        with self._secret(leftover.namespace, leftover.redis_secret) as secret:
            client = _redis(leftover.redis_url, secret)
            try:
                count = 0
                for pattern in (f"biclique:{{{leftover.prefix}}}*", f"biclique:{{{leftover.prefix}@*"):
                    keys = list(client.scan_iter(match=pattern, count=10_000))
                    for begin in range(0, len(keys), KEYS_AT_ONCE):
                        client.unlink(*keys[begin : begin + KEYS_AT_ONCE])
                    count += len(keys)
                return count
            except redis.RedisError as trouble:
                raise CannotSweep(f"Redis: {trouble}") from None
            finally:
                client.close()

    # --- Secrets -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _secret(self, namespace: str, name: str | None) -> Iterator[Secret | None]:
        """As a pod has it: a folder with a file for each key, which is gone as soon as it was used."""
        if name is None:
            yield None
            return
        try:
            found = self._cluster.get("Secret", namespace, name)
        except Refused as refusal:
            raise CannotSweep(f"the Secret {name} may not be read ({refusal.code})") from None
        if found is None:
            raise CannotSweep(f"the Secret {name} is not there any more")
        with tempfile.TemporaryDirectory() as folder:
            for key, value in (found.get("data") or {}).items():
                (Path(folder) / key).write_bytes(base64.b64decode(value))
            try:
                yield Secret(name, Path(folder))
            except QueryError as wrong:
                raise CannotSweep(str(wrong)) from None


def _await_end(deletion: Future[None]) -> None:
    """One that is gone was deleted before, and the broker that listed it had not heard of that yet."""
    try:
        deletion.result(timeout=2 * KAFKA_S)
    except KafkaException as refusal:
        if refusal.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise


def _redis(url: str, secret: Secret | None) -> redis.Redis:
    security: dict[str, Any] = {}
    if secret is not None:
        security = {"username": secret.text("username"), "password": secret.needed("password")}
        if urlsplit(url).scheme == "rediss":
            paths = {setting: secret.path(key) for setting, key in TLS_FILES.items()}
            security |= {setting: str(path) for setting, path in paths.items() if path is not None}
    return redis.Redis.from_url(url, socket_timeout=REDIS_S, socket_connect_timeout=REDIS_S, **security)
