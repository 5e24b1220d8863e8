"""An operator without its threads: one controller over a cluster, turned by hand until there is nothing more to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

from biclique.plan.fingerprint import fingerprint
from biclique_operator.caches import Caches, QueryKey
from biclique_operator.checked import Checked, check, manifest_text
from biclique_operator.cluster import Conflict
from biclique_operator.controller import Controller
from biclique_operator.desired.names import DRIVER, FIELD_MANAGER, MANAGED_BY, ROLE, QueryName
from biclique_operator.handlers import WATCHED
from biclique_operator.leftovers import Leftovers
from biclique_operator.observed import DriverSays
from biclique_operator.settings import Images, Installation
from biclique_operator.telemetry import Telemetry, silent
from tests.operator.kubelet import Kubelet
from tests.operator.manifests import joinquery
from tests.operator.memory_cluster import MemoryCluster

Raw = dict[str, Any]
LEFTOVERS = "biclique-system", "biclique-leftovers"
INSTALLATION = Installation(Images("biclique-spark:test", "IfNotPresent"))

# What is said of whatever runs, status and reason of each condition; no driver has been asked how it is.
ALL_IS_WELL = {
    "Ready": ("True", "Running"),
    "Progressing": ("False", "Stable"),
    "Degraded": ("False", "NothingAmiss"),
    "StateSafe": ("Unknown", "NotKnown"),
    "ScalingActive": ("False", "FixedNumber"),
    "Suspended": ("False", "NotSuspended"),
}


class Clock:
    """Seconds since 1970, moved by hand. `runs`: a clock that goes by itself as well, as a real API's does."""

    def __init__(self, runs: Callable[[], float] = lambda: 1_750_000_000.0) -> None:
        self._runs, self._ahead = runs, 0.0

    def __call__(self) -> float:
        return self._runs() + self._ahead

    def passes(self, seconds: float) -> None:
        self._ahead += seconds


class Operator:
    """`cluster`: a Cluster, or what stands for it. Its caches are as fresh as the last `list_everything`."""

    def __init__(
        self,
        cluster: Any,
        clock: Callable[[], float],
        telemetry: Telemetry | None = None,
        installation: Installation = INSTALLATION,
    ) -> None:
        self.cluster, self.clock = cluster, clock
        self.caches = Caches()
        self.told: dict[str, DriverSays] = {}
        leftovers = Leftovers(cluster, *LEFTOVERS)
        self.controller = Controller(
            cluster,
            self.caches,
            installation,
            telemetry or silent(),
            lambda: self.told,
            leftovers.note,
            clock,
        )

    def list_everything(self, namespace: str = "default") -> None:
        for _, _, _, kind in WATCHED:
            labels = {} if kind == "JoinQuery" else {MANAGED_BY: FIELD_MANAGER}
            known = self.caches.known(kind)
            self.caches.replace_all(kind, self.cluster.list(kind, namespace, labels), known)

    def look(self, key: QueryKey) -> float | None:
        """With fresh caches. A conflict is what the queue makes of it: another look."""
        self.list_everything(key.namespace)
        try:
            return self.controller.look(key)
        except Conflict:
            return 0.0

    def settle(self, key: QueryKey, looks_max: int = 20) -> None:
        """Until a look asks for no further one at once, and changes nothing."""
        for _ in range(looks_max):
            before = self.everything(key.namespace)
            again_s = self.look(key)
            if again_s != 0.0 and self.everything(key.namespace) == before:
                return
        raise AssertionError(f"{key} does not settle")

    def everything(self, namespace: str = "default") -> dict[tuple[str, str], str]:
        """What there is, by kind and name, with its version."""
        return {
            (kind, obj["metadata"]["name"]): obj["metadata"]["resourceVersion"]
            for _, _, _, kind in WATCHED
            for obj in self.cluster.list(kind, namespace)
        }

    # --- for tests to look at ----------------------------------------------------------------------------------------

    def query(self, key: QueryKey) -> Raw:
        found = self.cluster.get("JoinQuery", key.namespace, key.name)
        assert found is not None, f"{key} is gone"
        return found

    def condition(self, key: QueryKey, kind: str) -> tuple[str, str, str]:
        """Status, reason, message."""
        for one in self.query(key).get("status", {}).get("conditions", ()):
            if one["type"] == kind:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def pods(self, key: QueryKey) -> dict[str, Raw]:
        """Drivers by name, without the query's id."""
        found = self.cluster.list("Pod", key.namespace, {"biclique.dev/query": key.name, ROLE: DRIVER})
        return {pod["metadata"]["name"].split("-", 2)[2]: pod for pod in found}

    def events(self, key: QueryKey) -> list[tuple[str, str]]:
        """Reason and message, oldest first."""
        found = [
            event for event in self.cluster.list("Event", key.namespace) if event["involvedObject"]["name"] == key.name
        ]
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["reason"], event["message"]) for event in found]


class Stage:
    """One query called `fits` on a cluster, by default one in memory; its operator, and the kubelet."""

    def __init__(self, cluster: Any = None, clock: Clock | None = None, namespace: str = "default") -> None:
        self.clock = clock or Clock()
        self.cluster = cluster or MemoryCluster(self.clock)
        self.key = QueryKey(namespace, "fits")
        self.operator = Operator(self.cluster, self.clock)
        self.kubelet = Kubelet(self.cluster.write_status, self.clock)

    def settle(self) -> None:
        self.operator.settle(self.key)

    def run_pods(self) -> None:
        """Every driver that is not over becomes ready."""
        for pod in self.pods().values():
            if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                self.kubelet.runs(pod)

    def rests(self) -> None:
        """Suspended, and every driver has ended as it was asked."""
        self.change(suspend=True)
        self.settle()
        for pod in self.pods().values():
            self.kubelet.ends(pod, 0)
        self.settle()

    def is_running(self, **changes: Any) -> Stage:
        """Created, ready, and begun: its state is the manifest's."""
        self.cluster.create(joinquery(namespace=self.key.namespace, **changes))
        self.settle()
        self.run_pods()
        self.begins()
        self.settle()
        assert self.condition("Ready")[0] == "True"
        return self

    def begins(self) -> None:
        """What the first tier of a query notes."""
        checked = check(manifest_text("fits", self.operator.query(self.key)["spec"]))
        assert isinstance(checked, Checked), checked
        noted = json.dumps({**fingerprint(checked.plan), "topic orders": "7"})
        change = {"data": {"began": noted, "table.0": "{}"}}
        self.cluster.merge("ConfigMap", self.key.namespace, f"{self.id}-routing", change)

    def change(self, **changes: Any) -> None:
        """Of the spec, as `kubectl apply` does."""
        self.cluster.merge("JoinQuery", *self.key, {"spec": changes})

    def delete(self) -> None:
        self.cluster.remove("JoinQuery", *self.key, self.named.uid)

    def annotate(self, **annotations: str | None) -> None:
        named = {f"biclique.dev/{name}": value for name, value in annotations.items()}
        self.cluster.merge("JoinQuery", *self.key, {"metadata": {"annotations": named}})

    def everything(self) -> dict[tuple[str, str], str]:
        return self.operator.everything(self.key.namespace)

    def passes(self, seconds: float) -> None:
        """And the operator looks, as it does when time alone changes something."""
        self.clock.passes(seconds)
        self.settle()

    def named_within(self, seconds: float) -> tuple[str, str, str]:
        """What is said when so much time has passed, by an operator that looks when it says it will."""
        until = self.clock() + seconds
        while self.clock() < until:
            again_s = self.operator.look(self.key)
            assert again_s is not None
            self.clock.passes(min(again_s, until - self.clock()))
        return self.condition("Degraded")

    # --- for tests to look at ----------------------------------------------------------------------------------------

    @cached_property
    def named(self) -> QueryName:
        """Also of a query that is gone, if it was asked for before."""
        return QueryName(self.key.name, self.key.namespace, self.operator.query(self.key)["metadata"]["uid"])

    @property
    def id(self) -> str:
        return str(self.status["id"])

    @property
    def status(self) -> Raw:
        return dict(self.operator.query(self.key).get("status") or {})

    def condition(self, kind: str) -> tuple[str, str, str]:
        return self.operator.condition(self.key, kind)

    def subgroup(self, name: str) -> Raw:
        found = self.cluster.get("JoinSubgroup", self.key.namespace, f"{self.id}-{name.lower()}")
        assert found is not None, f"{name} is gone"
        return dict(found)

    def of_subgroup(self, name: str, kind: str) -> tuple[str, str, str]:
        """One of its conditions, as of a query."""
        (found,) = (one for one in self.subgroup(name)["status"]["conditions"] if one["type"] == kind)
        return found["status"], found["reason"], found["message"]

    def pods(self) -> dict[str, Raw]:
        return self.operator.pods(self.key)

    def alive(self) -> list[str]:
        pods = self.pods().items()
        return sorted(n for n, pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"))

    def driver(self, name: str) -> Raw:
        """What the status says of it."""
        drivers = [*self.status["tiers"], *self.status["subgroups"]]
        return next(one for one in drivers if one["name"] == name)

    def events(self) -> list[tuple[str, str]]:
        return self.operator.events(self.key)

    def reasons(self) -> list[str]:
        return [reason for reason, _ in self.events()]


def created(**changes: Any) -> Stage:
    """Its query's pods are there, and none of them has begun."""
    stage = Stage()
    stage.cluster.create(joinquery(**changes))
    stage.settle()
    return stage
