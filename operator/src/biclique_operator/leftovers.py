"""What deleted queries have left in Kafka and Redis: noted in a ConfigMap of the operator's before a query may go, so
that neither has to answer for a query to be deleted, and nothing is forgotten when they do not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any

from biclique.query.model import Kafka
from biclique_operator.checked import Checked, check
from biclique_operator.cluster import Cluster
from biclique_operator.desired.names import FIELD_MANAGER, MANAGED_BY, QueryName
from biclique_operator.observed import Observed


@dataclass(frozen=True)
class Leftover:
    """`prefix`: of topics and keys, of no other query, since it is made of the uid. Secrets are named, never held."""

    prefix: str
    namespace: str
    query: str
    uid: str
    bootstrap_servers: str
    kafka_secret: str | None
    redis_url: str | None
    redis_secret: str | None
    noted_at: float


class Leftovers:
    """`name`: of the ConfigMap, of one installation."""

    def __init__(self, cluster: Cluster, namespace: str, name: str, now: Callable[[], float] = time.time) -> None:
        self._cluster, self._namespace, self._name, self._now = cluster, namespace, name, now

    def note(self, observed: Observed, manifest: str) -> None:
        """Before the query goes: it raises what the API does, and is done again then."""
        checked = check(manifest)
        if isinstance(checked, Checked):
            self._write(_leftover_of(observed.query, checked, self._now()))

    def all(self) -> tuple[Leftover, ...]:
        """But for what somebody else has written there, or changed beyond recognition."""
        found = self._cluster.get("ConfigMap", self._namespace, self._name)
        read = [_read(prefix, text) for prefix, text in ((found or {}).get("data") or {}).items()]
        return tuple(leftover for leftover in read if leftover is not None)

    def forget(self, leftover: Leftover) -> None:
        self._cluster.merge("ConfigMap", self._namespace, self._name, {"data": {leftover.prefix: None}})

    def _write(self, leftover: Leftover) -> None:
        data = {leftover.prefix: json.dumps(asdict(leftover), sort_keys=True)}
        if self._cluster.get("ConfigMap", self._namespace, self._name) is None:
            about: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
            about["labels"] = {MANAGED_BY: FIELD_MANAGER}
            self._cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data})
        else:
            self._cluster.merge("ConfigMap", self._namespace, self._name, {"data": data})


def _read(prefix: str, text: str) -> Leftover | None:
    """Of another version, too: what it does not say is nothing, and what only it knows is left out."""
    try:
        said: Any = json.loads(text)
        known: dict[str, Any] = {field.name: said.get(field.name) for field in fields(Leftover)}
        noted_at = float(said.get("noted_at") or time.time())
    except (ValueError, TypeError, AttributeError):
        return None
    if not all(isinstance(known[name], str) for name in ("namespace", "query", "uid", "bootstrap_servers")):
        return None
    return Leftover(**{**known, "prefix": prefix, "noted_at": noted_at})


def _leftover_of(query: QueryName, checked: Checked, now: float) -> Leftover:
    output, redis = checked.plan.query.output, checked.plan.query.redis
    assert isinstance(output, Kafka), "a query on a cluster writes a topic"
    return Leftover(
        prefix=query.id,
        namespace=query.namespace,
        query=query.name,
        uid=query.uid,
        bootstrap_servers=output.bootstrap_servers,
        kafka_secret=output.secret,
        redis_url=None if redis is None else redis.url,
        redis_secret=None if redis is None else redis.secret,
        noted_at=now,
    )
