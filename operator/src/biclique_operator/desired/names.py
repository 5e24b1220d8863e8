"""How everything of a query is called and labelled.

Names come from the JoinQuery's uid as well as from its name: a query that was deleted and made anew under the same name
has other topics, keys and objects, so what is swept of the old one is never the new one's.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

GROUP = "biclique.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

FIELD_MANAGER = "biclique-operator"
FINALIZER = f"{GROUP}/cleanup"

# Annotations.
STOP = f"{GROUP}/stop"  # on the routing ConfigMap: drivers end
RECONCILE = f"{GROUP}/reconcile"  # on a JoinQuery: `paused`
RESTART = f"{GROUP}/restart"  # on a JoinQuery: whatever it says is part of what drivers are made of
SPEC_HASH = f"{GROUP}/spec-hash"  # on a driver pod
IMAGE = f"{GROUP}/image"  # on a driver pod: what it was to be, whatever a webhook made of it
ATTEMPT = f"{GROUP}/attempt"  # on a driver pod
GENERATION = f"{GROUP}/generation"  # on a driver pod: of the JoinQuery that it was made for
SECRETS = f"{GROUP}/executors-secret"  # on a driver pod and on what Spark is told: the number of the one they mount
APPLIED = f"{GROUP}/applied"  # on what is applied: a digest of all that was

# Labels.
MANAGED_BY = "app.kubernetes.io/managed-by"
COMPONENT = "app.kubernetes.io/component"
ROLE = f"{GROUP}/role"
QUERY = f"{GROUP}/query"
QUERY_UID = f"{GROUP}/query-uid"
SUBGROUP = f"{GROUP}/subgroup"
DRIVER, EXECUTOR = "driver", "executor"
AUTHENTICATION = "-executors"


@dataclass(frozen=True, slots=True)
class QueryName:
    """A JoinQuery, by all that names are made of. `secrets`: how many its executors have had. One that was lost has a
    successor of another name: a node knows the value of a name for as long as any of its pods mounts it."""

    name: str
    namespace: str
    uid: str
    secrets: int = 1

    @property
    def id(self) -> str:
        """Of topics, keys and objects. Short enough that what is appended fits 63 characters."""
        return f"{self.name[:40]}-{hashlib.sha256(self.uid.encode()).hexdigest()[:8]}"

    @property
    def pods(self) -> str:
        """What the names of its pods begin with: its id, unless that is long. Spark appends to a driver's name for its
        executors, and takes none that is longer than 47."""
        return f"{self.name[:22]}-{self.id[-8:]}"

    def labels(self) -> dict[str, str]:
        return {
            "app.kubernetes.io/name": "biclique",
            "app.kubernetes.io/instance": self.id,
            MANAGED_BY: FIELD_MANAGER,
            QUERY: self.name,
            QUERY_UID: self.uid,
        }

    def selector(self, role: str) -> dict[str, str]:
        """Of its pods of one role, by labels that are never another query's."""
        return {"app.kubernetes.io/instance": self.id, ROLE: role}

    def owner(self) -> dict[str, object]:
        return owner_reference("JoinQuery", self.name, self.uid)

    @property
    def manifest(self) -> str:
        return f"{self.id}-manifest"

    @property
    def routing(self) -> str:
        return f"{self.id}-routing"

    @property
    def service(self) -> str:
        """A Service's begins with a letter, and a query's may begin with a digit."""
        return f"query-{self.id}"

    @property
    def driver_account(self) -> str:
        return f"{self.id}-driver"

    @property
    def executor_account(self) -> str:
        return f"{self.id}-executor"

    @property
    def authentication(self) -> str:
        """Of the Secret by which a driver and its executors know each other."""
        return f"{self.id}{AUTHENTICATION}" + (f"-{self.secrets}" if self.secrets > 1 else "")

    def spark(self, tier: str) -> str:
        return f"{self.id}-spark-{tier}"

    def subgroup(self, subgroup: str) -> str:
        return f"{self.id}-{subgroup.lower()}"


def owner_reference(kind: str, name: str, uid: str) -> dict[str, object]:
    """Without `blockOwnerDeletion`: who deletes a query need not wait for its pods, and the operator needs no right to
    its finalizers for it."""
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def metadata(query: QueryName, name: str, more_labels: dict[str, str] | None = None) -> dict[str, object]:
    """Of an object that goes with its query."""
    return {
        "name": name,
        "namespace": query.namespace,
        "labels": {**query.labels(), **(more_labels or {})},
        "ownerReferences": [query.owner()],
    }
