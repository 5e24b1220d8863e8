"""The one module that calls Kubernetes.

Objects go in and come out as the API's JSON: what they mean is said by `observed.py` and `desired/`. Whatever goes
wrong is one of three exceptions, so that nobody else knows the client's.

A span is made for each call that changes something; reads are none, since a look at a query that is as it should be
reads nothing but caches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from biclique_operator.desired.names import FIELD_MANAGER, GROUP, VERSION
from biclique_operator.telemetry import Telemetry

Raw = dict[str, Any]
TIMEOUT_S = (3.0, 10.0)  # to connect, to answer
# Of what changes something: who may still write when he begins has his answer before another leads (lease.py).
WRITE_S = (1.0, 3.0)
# Of a pod: webhooks that look at its image may take their time. One that comes to be late has the name of its attempt,
# so whoever leads by then finds it, and makes no second one.
ADMITTED_S = (1.0, 12.0)
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"

# Kind -> where the API has it.
PLACES = {
    "Pod": ("api/v1", "pods"),
    "ConfigMap": ("api/v1", "configmaps"),
    "Service": ("api/v1", "services"),
    "ServiceAccount": ("api/v1", "serviceaccounts"),
    "Secret": ("api/v1", "secrets"),
    "Event": ("api/v1", "events"),
    "Role": ("apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "PodDisruptionBudget": ("apis/policy/v1", "poddisruptionbudgets"),
    "NetworkPolicy": ("apis/networking.k8s.io/v1", "networkpolicies"),
    "Lease": ("apis/coordination.k8s.io/v1", "leases"),
    "JoinQuery": (f"apis/{GROUP}/{VERSION}", "joinqueries"),
    "JoinSubgroup": (f"apis/{GROUP}/{VERSION}", "joinsubgroups"),
}


class Refused(Exception):
    """The API answered, and the answer is no."""

    def __init__(self, code: int, message: str) -> None:
        self.code, self.message = code, message
        super().__init__(f"{code}: {message}")


class Conflict(Refused):
    """Somebody else was there first: what was seen is not what there is. Look again."""


class Unreachable(Exception):
    """No answer, or one that says to come back later. Nobody knows whether the call took effect."""


class NotLeading(Exception):
    """This process may not write any more: another one leads."""


def connect(kubeconfig: str | None = None) -> client.ApiClient:
    """As a pod of the cluster, or with a person's own configuration."""
    settings = client.Configuration()
    if kubeconfig is not None:
        config.load_kube_config(kubeconfig, client_configuration=settings)
    else:
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException:
            config.load_kube_config(client_configuration=settings)
    settings.connection_pool_maxsize = 16
    settings.retries = False  # a write that is repeated unseen is none that was decided
    return client.ApiClient(settings)


class Cluster:
    """`may_write`: asked before each call that changes something."""

    def __init__(
        self, api: client.ApiClient, telemetry: Telemetry, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        self._api, self._telemetry, self._may_write = api, telemetry, may_write

    # --- reading -----------------------------------------------------------------------------------------------------

    def get(self, kind: str, namespace: str, name: str, timeout_s: tuple[float, float] | None = None) -> Raw | None:
        try:
            return _with_kind(kind, self._call("GET", _path(kind, namespace, name), timeout_s=timeout_s))
        except Refused as refusal:
            if refusal.code == 404:
                return None
            raise

    def list(
        self, kind: str, namespace: str | None, labels: Mapping[str, str] | None = None, fields: str = ""
    ) -> tuple[Raw, ...]:
        query = []
        if labels:
            query.append(("labelSelector", ",".join(f"{key}={value}" for key, value in labels.items())))
        if fields:
            query.append(("fieldSelector", fields))
        answer = self._call("GET", _path(kind, namespace), query)
        return tuple(_with_kind(kind, item) for item in answer.get("items") or ())

    # --- writing -----------------------------------------------------------------------------------------------------

    def apply(self, desired: Raw) -> Raw:
        """Server-side: what is ours of it becomes as it says, and what others own stays."""
        about = desired["metadata"]
        query = [("fieldManager", FIELD_MANAGER), ("force", "true")]
        path = _path(desired["kind"], about["namespace"], about["name"])
        return self._write("apply", desired["kind"], "PATCH", path, query, desired, APPLY)

    def create(self, desired: Raw) -> Raw:
        """Conflict: there is one of this name."""
        path = _path(desired["kind"], desired["metadata"]["namespace"])
        query = [("fieldManager", FIELD_MANAGER)]
        limits_s = ADMITTED_S if desired["kind"] == "Pod" else WRITE_S
        return self._write("create", desired["kind"], "POST", path, query, desired, limits_s=limits_s)

    def would_create(self, desired: Raw) -> None:
        """Nothing is made; what the API would refuse it refuses."""
        path = _path(desired["kind"], desired["metadata"]["namespace"])
        self._call("POST", path, [("fieldManager", FIELD_MANAGER), ("dryRun", "All")], desired)

    def replace(self, changed: Raw) -> Raw:
        """Conflict: it has changed since it was read."""
        about = changed["metadata"]
        path = _path(changed["kind"], about["namespace"], about["name"])
        return self._write("replace", changed["kind"], "PUT", path, [("fieldManager", FIELD_MANAGER)], changed)

    def merge(self, kind: str, namespace: str, name: str, change: Raw) -> Raw:
        """What it names is changed, and what is None in it goes."""
        path = _path(kind, namespace, name)
        return self._write("merge", kind, "PATCH", path, [("fieldManager", FIELD_MANAGER)], change, MERGE)

    def write_status(self, seen: Raw, status: Raw) -> Raw:
        """The whole of it, over exactly what was seen. Conflict: there is another one, or none any more."""
        about = seen["metadata"]
        whole = {**seen, "status": status}
        path = _path(seen["kind"], about["namespace"], about["name"]) + "/status"
        query = [("fieldManager", FIELD_MANAGER)]
        return self._over_what_was_seen("status", seen["kind"], "PUT", path, query, whole)

    def write_finalizers(self, seen: Raw, finalizers: Iterable[str]) -> Raw | None:
        """As a status. None: with the last one it was gone."""
        about = seen["metadata"]
        change = {"metadata": {"finalizers": list(finalizers), "resourceVersion": about["resourceVersion"]}}
        path = _path(seen["kind"], about["namespace"], about["name"])
        query = [("fieldManager", FIELD_MANAGER)]
        return self._over_what_was_seen("finalizers", seen["kind"], "PATCH", path, query, change, MERGE)

    def remove(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Exactly this one: another of its name stays. One that is gone already is as it should be."""
        options = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"} if uid else {}
        try:
            self._write("remove", kind, "DELETE", _path(kind, namespace, name), [], options)
        except Refused as refusal:
            if refusal.code not in (404, 409):
                raise

    def _over_what_was_seen(self, *call: Any) -> Raw:
        try:
            return self._write(*call)
        except Refused as refusal:
            if refusal.code == 404:  # as where another operator, or a person, was quicker to end it
                raise Conflict(refusal.code, refusal.message) from None
            raise

    # --- the call ----------------------------------------------------------------------------------------------------

    def _write(
        self,
        verb: str,
        kind: str,
        method: str,
        path: str,
        query: Any,
        body: Raw,
        content: str = "application/json",
        limits_s: tuple[float, float] = WRITE_S,
    ) -> Raw:
        if not self._may_write():
            raise NotLeading
        name = path.rsplit("/", 1)[-1]
        # The server, too, gives it up then: what it has in hand must not take effect later.
        query = [*query, ("timeout", f"{sum(limits_s):.0f}s")]
        with self._telemetry.writing(verb, kind, name):
            return _with_kind(kind, self._call(method, path, query, body, content, limits_s))

    def _call(
        self,
        method: str,
        path: str,
        query: Any = (),
        body: Raw | None = None,
        content: str = "application/json",
        timeout_s: tuple[float, float] | None = None,
    ) -> Raw:
        headers: dict[str, str] = {"Accept": "application/json", "Content-Type": content}
        parameters: list[Any] = list(query)
        self._api.update_params_for_auth(headers, parameters, ["BearerToken"])
        url = f"{self._api.configuration.host}/{path}"
        try:
            answer = self._api.rest_client.request(
                method,
                url,
                query_params=parameters,
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=timeout_s or TIMEOUT_S,
            )
            data = answer.data  # read only now: it may break off
        except ApiException as error:
            raise _failure(error.status or 0, _message(error.body or b"") or error.reason or "") from None
        except urllib3.exceptions.HTTPError as error:
            raise Unreachable(f"Kubernetes does not answer ({error})") from None
        if not 200 <= answer.status < 300:
            raise _failure(answer.status, _message(data))
        try:
            found = json.loads(data) if data else {}
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise Unreachable(f"what answers in Kubernetes' place is not its API: {data[:100]!r}")
        return found


def _failure(code: int, message: str) -> Exception:
    if code == 409:
        return Conflict(code, message)
    if code == 0 or code == 429 or code >= 500:
        return Unreachable(f"Kubernetes answers {code}: {message}")
    return Refused(code, message)


def _message(data: bytes | str) -> str:
    """Of the API's own answer; of a proxy's, its beginning."""
    try:
        return str(json.loads(data).get("message") or "")
    except (ValueError, AttributeError):
        return str(data[:200])


def _path(kind: str, namespace: str | None, name: str = "") -> str:
    root, plural = PLACES[kind]
    inside = f"/namespaces/{quote(namespace)}" if namespace is not None else ""
    return f"{root}{inside}/{plural}" + (f"/{quote(name)}" if name else "")


def _with_kind(kind: str, obj: Raw) -> Raw:
    """Items of a list do not say what they are."""
    if obj.get("kind") == "Status":
        return obj
    root = PLACES[kind][0]
    return {**obj, "kind": kind, "apiVersion": root.removeprefix("apis/").removeprefix("api/")}
