"""Kubernetes' API as far as the operator uses it, in memory: what `Cluster` promises, without a server.

The same tests run over this and over the real API server where it is built, so what this gets wrong shows there. It
collects no garbage and runs no pod: tests play the kubelet (`kubelet.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from biclique_operator.cluster import Conflict, Refused
from biclique_operator.observed import timestamp_of

Raw = dict[str, Any]
Place = tuple[str, str, str]  # kind, namespace, name


class MemoryCluster:
    """`before_write`: called before each call that changes something; what it raises is what the caller sees."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._objects: dict[Place, Raw] = {}
        self._applied: dict[Place, Raw] = {}
        self._numbers = itertools.count(1)
        self.before_write: Callable[[str, str, str], None] = lambda verb, kind, name: None
        self.quota: int | None = None  # of pods
        self.closed: set[str] = set()  # namespaces of which nothing may be listed

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, kind: str, namespace: str, name: str, timeout_s: object = None) -> Raw | None:
        return _copied(self._objects.get((kind, namespace, name)))

    def list(
        self, kind: str, namespace: str | None, labels: Mapping[str, str] | None = None, fields: str = ""
    ) -> tuple[Raw, ...]:
        if namespace in self.closed:
            raise Refused(403, f'cannot list resource "{kind}" in the namespace "{namespace}"')
        found = (
            obj
            for (of, where, _), obj in self._objects.items()
            if of == kind
            and namespace in (None, where)
            and all((obj["metadata"].get("labels") or {}).get(k) == v for k, v in (labels or {}).items())
            and _has_fields(obj, fields)
        )
        return tuple(_copied(obj) for obj in found)

    # --- writing -----------------------------------------------------------------------------------------------------

    def apply(self, desired: Raw) -> Raw:
        place = _place(desired)
        self.before_write("apply", desired["kind"], place[2])
        before = self._objects.get(place)
        if before is None:
            self._applied[place] = _copied(desired)
            return self._store(place, _copied(desired), new=True)
        changed = _copied(before)
        _without(changed, self._applied.get(place, {}), desired)
        _merge(changed, desired)
        self._applied[place] = _copied(desired)
        return self._store(place, changed, new=False) if changed != before else _copied(before)

    def create(self, desired: Raw) -> Raw:
        desired = _copied(desired)
        about = desired["metadata"]
        about.setdefault("name", f"{about.get('generateName', '')}{next(self._numbers)}")
        place = _place(desired)
        self.before_write("create", desired["kind"], place[2])
        if place in self._objects:
            raise Conflict(409, f"{place[2]} already exists")
        self._refuse_over_quota(desired)
        return self._store(place, desired, new=True)

    def would_create(self, desired: Raw) -> None:
        if _place(desired) in self._objects:
            raise Conflict(409, f"{_place(desired)[2]} already exists")
        self._refuse_over_quota(desired)

    def _refuse_over_quota(self, desired: Raw) -> None:
        _, namespace, name = _place(desired)
        if desired["kind"] == "Pod" and self.quota is not None and len(self.list("Pod", namespace)) >= self.quota:
            raise Refused(403, f'pods "{name}" is forbidden: exceeded quota: small, requested: pods=1')

    def replace(self, changed: Raw) -> Raw:
        place = _place(changed)
        self.before_write("replace", changed["kind"], place[2])
        self._same_version(place, changed)
        return self._store(place, _copied(changed), new=False)

    def merge(self, kind: str, namespace: str, name: str, change: Raw) -> Raw:
        place = kind, namespace, name
        self.before_write("merge", kind, name)
        if place not in self._objects:
            raise Refused(404, f"{name} not found")
        changed = _copied(self._objects[place])
        _merge(changed, change)
        return self._store(place, changed, new=False)

    def write_status(self, seen: Raw, status: Raw) -> Raw:
        place = _place(seen)
        self.before_write("status", seen["kind"], place[2])
        self._same_version(place, seen)
        return self._store(place, {**self._objects[place], "status": _copied(status)}, new=False)

    def write_finalizers(self, seen: Raw, finalizers: Iterable[str]) -> Raw:
        place = _place(seen)
        self.before_write("finalizers", seen["kind"], place[2])
        self._same_version(place, seen)
        changed = _copied(self._objects[place])
        changed["metadata"]["finalizers"] = list(finalizers)
        if not changed["metadata"]["finalizers"] and changed["metadata"].get("deletionTimestamp"):
            del self._objects[place]
            return changed
        return self._store(place, changed, new=False)

    def remove(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """As without a node: a pod goes at once."""
        place = kind, namespace, name
        self.before_write("remove", kind, name)
        there = self._objects.get(place)
        if there is None or there["metadata"]["uid"] != uid:
            return
        if there["metadata"].get("finalizers"):
            there["metadata"].setdefault("deletionTimestamp", timestamp_of(self._now()))
            self._store(place, there, new=False)
        else:
            del self._objects[place]

    # --- what it keeps -----------------------------------------------------------------------------------------------

    def _store(self, place: Place, obj: Raw, new: bool) -> Raw:
        about = obj["metadata"]
        number = next(self._numbers)
        before = self._objects.get(place)
        if new:
            about.update(uid=f"uid-{number}", generation=1, creationTimestamp=timestamp_of(self._now()))
        elif before is not None and before.get("spec") != obj.get("spec"):
            about["generation"] = int(about.get("generation") or 0) + 1
        about["resourceVersion"] = str(number)
        self._objects[place] = _copied(obj)
        return _copied(obj)

    def _same_version(self, place: Place, seen: Raw) -> None:
        there = self._objects.get(place)
        if there is None:
            raise Conflict(404, f"{place[2]} not found")
        if there["metadata"]["resourceVersion"] != seen["metadata"]["resourceVersion"]:
            raise Conflict(409, f"{place[2]} was modified")


def _copied(value: Any) -> Any:
    """Of what JSON can say, which takes a fifth of the time that any object would."""
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list | tuple) else value


def _place(obj: Raw) -> Place:
    return obj["kind"], obj["metadata"]["namespace"], obj["metadata"]["name"]


def _has_fields(obj: Raw, fields: str) -> bool:
    for field in filter(None, fields.split(",")):
        path, _, wanted = field.partition("=")
        value: Any = obj
        for part in path.split("."):
            value = (value or {}).get(part)
        if value != wanted:
            return False
    return True


def _merge(whole: Raw, part: Raw) -> None:
    """A None removes; lists are taken as they are."""
    for key, value in part.items():
        if value is None:
            whole.pop(key, None)
        elif isinstance(value, dict) and isinstance(whole.get(key), dict):
            _merge(whole[key], value)
        else:
            whole[key] = _copied(value)


def _without(whole: Raw, before: Raw, after: Raw) -> None:
    """What was applied before and is not applied any more."""
    for key, value in before.items():
        if key not in after:
            whole.pop(key, None)
        elif isinstance(value, dict) and isinstance(after[key], dict) and isinstance(whole.get(key), dict):
            _without(whole[key], value, after[key])
