"""What watches have told, by query. Behind the API by as long as a watch takes; so it says whether there is something
to do, and what is done is decided again from what the API says then.

Safe to use from several threads. Events may come out of order with what was listed: the greater version stays.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

from biclique_operator.desired.names import FIELD_MANAGER, MANAGED_BY, QUERY, QUERY_UID

Raw = dict[str, Any]


class QueryKey(NamedTuple):
    """Of a query in the queue; a query that is made anew under its name has the same one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def key_of(obj: Raw) -> QueryKey | None:
    """Whose it is. None: nobody's of ours."""
    about = obj["metadata"]
    if obj["kind"] == "JoinQuery":
        return QueryKey(about["namespace"], about["name"])
    labels = about.get("labels") or {}
    if labels.get(MANAGED_BY) != FIELD_MANAGER or QUERY not in labels:
        return None
    return QueryKey(about["namespace"], labels[QUERY])


class Caches:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queries: dict[QueryKey, Raw] = {}
        self._owned: dict[QueryKey, dict[tuple[str, str], Raw]] = {}

    def put(self, obj: Raw) -> QueryKey | None:
        """None: it is nobody's, or nothing that was not known."""
        key = key_of(obj)
        if key is None:
            return None
        slim = _slim(obj)
        with self._lock:
            place, name = self._place(key, slim)
            known = place.get(name)
            if known is not None and version_of(known) >= version_of(slim) and known["metadata"]["uid"] == _uid(slim):
                return None
            place[name] = slim
        return key

    def drop(self, obj: Raw) -> QueryKey | None:
        key = key_of(obj)
        if key is None:
            return None
        with self._lock:
            place, name = self._place(key, obj)
            known = place.get(name)
            if known is None or known["metadata"]["uid"] != _uid(obj):
                return None
            del place[name]
        return key

    def _place(self, key: QueryKey, obj: Raw) -> tuple[dict[Any, Raw], object]:
        if obj["kind"] == "JoinQuery":
            return self._queries, key
        return self._owned.setdefault(key, {}), (obj["kind"], obj["metadata"]["name"])

    def query(self, key: QueryKey) -> Raw | None:
        with self._lock:
            return self._queries.get(key)

    def owned(self, key: QueryKey, uid: str) -> tuple[Raw, ...]:
        """What is this query's, and not that of one of its name before it."""
        with self._lock:
            found = tuple(self._owned.get(key, {}).values())
        return tuple(obj for obj in found if (obj["metadata"].get("labels") or {}).get(QUERY_UID) == uid)

    def queries(self) -> tuple[QueryKey, ...]:
        with self._lock:
            return tuple(self._queries)

    def replace_all(
        self, kind: str, listed: Iterable[Raw], since: frozenset[tuple[QueryKey, str, str]]
    ) -> set[QueryKey]:
        """After a list of a whole kind: what was known before it (`since`) and is not in it is gone. Returns whose
        objects were not as they were known."""
        found = list(listed)
        changed = {key for obj in found if (key := self.put(obj)) is not None}
        there = {_uid(obj) for obj in found}
        with self._lock:
            for key, name, uid in since:
                if uid in there:
                    continue
                place: dict[Any, Raw] = self._queries if kind == "JoinQuery" else self._owned.get(key, {})
                at: object = key if kind == "JoinQuery" else (kind, name)
                known = place.get(at)
                if known is not None and _uid(known) == uid:
                    del place[at]
                    changed.add(key)
        return changed

    def known(self, kind: str) -> frozenset[tuple[QueryKey, str, str]]:
        with self._lock:
            if kind == "JoinQuery":
                return frozenset((key, key.name, _uid(obj)) for key, obj in self._queries.items())
            return frozenset(
                (key, name, _uid(obj))
                for key, owned in self._owned.items()
                for (of, name), obj in owned.items()
                if of == kind
            )


def _slim(obj: Raw) -> Raw:
    """Without what nobody here reads, which is half of an object."""
    about = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    slim = {**obj, "metadata": about}
    if obj["kind"] == "Pod":
        slim.pop("spec", None)
    elif obj["kind"] == "ConfigMap" and "data" in obj and any(key.startswith("table.") for key in obj["data"] or ()):
        slim["data"] = {key: value for key, value in obj["data"].items() if not key.startswith("table.")}
    return slim


def version_of(obj: Raw) -> int:
    """0: it says none that could be compared."""
    written = obj["metadata"].get("resourceVersion") or "0"
    return int(written) if written.isdigit() else 0


def _uid(obj: Raw) -> str:
    return str(obj["metadata"].get("uid") or "")
