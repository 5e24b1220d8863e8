"""A query with an executor for each driver; and Spark, which makes them, played by hand."""

from __future__ import annotations

from typing import Any

from tests.operator.manifests import WITH_EXECUTORS, joinquery
from tests.operator.stage import Clock, Stage
from tests.operator.surroundings import spark_makes

Raw = dict[str, Any]


class SparkStage(Stage):
    """`trials`: executors of which it was asked whether they would be taken."""

    def __init__(self, cluster: Any = None, clock: Clock | None = None, namespace: str = "default") -> None:
        super().__init__(cluster, clock, namespace)
        self.trials: list[str] = []
        would_create = self.cluster.would_create

        def tried(pod: Raw) -> None:
            self.trials.append(pod["metadata"]["name"])
            would_create(pod)

        self.cluster.would_create = tried
        self.cluster.create(joinquery(namespace=namespace, **WITH_EXECUTORS))
        self.settle()

    def drivers_begin(self) -> None:
        """They run, and wait for what is to run their units."""
        for pod in self.pods().values():
            self.kubelet.runs(pod, ready=False)

    def spark_makes(self, driver: str) -> Raw:
        return spark_makes(self, self.pods()[driver])

    def is_running(self, **changes: Any) -> SparkStage:
        for name in self.pods():
            self.kubelet.runs(self.spark_makes(name))
        self.run_pods()
        self.begins()
        self.settle()
        assert self.condition("Ready")[0] == "True"
        return self
