"""What kopf is for here: lists and watches. A handler puts what it is told into the caches and the query's key into the
queue; it decides nothing, so there is nothing in it that could fail and be forgotten.

Only `on.event` is used: it puts neither finalizers nor annotations on anybody's objects. Namespaces and CRDs are not
scanned, which saves the rights to; the CRDs must be there before the operator is.
"""

from __future__ import annotations

import logging
from typing import Any

import kopf
from kubernetes import client

from biclique_operator import canary
from biclique_operator.caches import Caches, QueryKey, version_of
from biclique_operator.canary import Canary
from biclique_operator.deafness import Deafness
from biclique_operator.desired.names import FIELD_MANAGER, GROUP, MANAGED_BY, VERSION
from biclique_operator.queue import WorkQueue

OURS = f"{MANAGED_BY}={FIELD_MANAGER}"
CANARY = QueryKey("", canary.NAME)  # its turn in the queue; of no query, since each is in a namespace
# (group, version, plural) and kind; the first one is not labelled by us.
WATCHED = (
    (GROUP, VERSION, "joinqueries", "JoinQuery"),
    (GROUP, VERSION, "joinsubgroups", "JoinSubgroup"),
    ("", "v1", "pods", "Pod"),
    ("", "v1", "configmaps", "ConfigMap"),
    ("", "v1", "services", "Service"),
    ("", "v1", "serviceaccounts", "ServiceAccount"),
    ("rbac.authorization.k8s.io", "v1", "roles", "Role"),
    ("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding"),
    ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
    ("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy"),
)


def registry_of(
    caches: Caches, queue: WorkQueue[QueryKey], deafness: Deafness, sign_of_life: Canary, api: client.ApiClient
) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def seen(*, event: Any, param: Any = None, **_: Any) -> None:
        deafness.heard(param)
        obj = {**event["object"], "kind": param}
        if obj["kind"] == "ConfigMap" and obj["metadata"]["name"] == canary.NAME:
            sign_of_life.heard(version_of(obj))
            queue.add(CANARY)
            return
        key = caches.drop(obj) if event["type"] == "DELETED" else caches.put(obj)
        if key is not None:
            queue.add(key)

    for group, version, plural, kind in WATCHED:
        kopf.on.event(group, version, plural, param=kind, registry=registry)(seen)

    async def login(**_: Any) -> kopf.ConnectionInfo:
        return credentials(api)

    kopf.on.login(registry=registry)(login)
    return registry


def credentials(api: client.ApiClient) -> kopf.ConnectionInfo:
    """Those of our own client, asked for again when they are refused: a pod's token is changed every hour. The word
    before it is `Bearer` or, of a pod's, `bearer`."""
    config = api.configuration
    header = (config.auth_settings().get("BearerToken") or {}).get("value") or ""
    return kopf.ConnectionInfo(
        server=config.host,
        ca_path=config.ssl_ca_cert,
        insecure=not config.verify_ssl,
        token=header.rpartition(" ")[2] or None,
        certificate_path=config.cert_file,
        private_key_path=config.key_file,
    )


def settings() -> kopf.OperatorSettings:
    found = kopf.OperatorSettings()
    found.scanning.disabled = True
    found.posting.enabled = False
    found.watching.server_timeout = 300
    found.networking.connect_timeout = 5
    for group, version, plural, _ in WATCHED[1:]:
        found.watching.label_selectors[group, version, plural] = OURS
    return found


def quieten_kopf() -> None:
    """It logs every event of every object."""
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    logging.getLogger("kopf._core").setLevel(logging.WARNING)
