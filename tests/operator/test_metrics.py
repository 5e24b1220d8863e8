"""What the operator tells of itself is what happened: how often it looked and what came of it, and how long a query was
in which state. What it tells as a process is in test_on_the_api.py."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from biclique_operator.cluster import Conflict, Refused
from biclique_operator.telemetry import telemetry_with
from tests.operator.manifests import joinquery
from tests.operator.stage import Clock, Operator, Stage


class CountedStage(Stage):
    def __init__(self, cluster: Any = None, clock: Clock | None = None) -> None:
        super().__init__(cluster, clock)
        self.reader = InMemoryMetricReader()
        telemetry = telemetry_with([], [self.reader], "test")
        self.operator = Operator(self.cluster, self.clock, telemetry)

    def points(self, name: str) -> dict[tuple[str, ...], tuple[int, float]]:
        """By its attributes' values: how many, and their sum."""
        read = self.reader.get_metrics_data()
        assert read is not None
        every = [metric for r in read.resource_metrics for s in r.scope_metrics for metric in s.metrics]
        points: list[Any] = [p for metric in every if metric.name == name for p in metric.data.data_points]
        return {tuple(map(str, p.attributes.values())): (p.count, p.sum) for p in points}

    def looks(self) -> dict[str, int]:
        found = self.points("biclique.operator.reconcile.duration")
        return {outcome: count for (outcome,), (count, _) in found.items()}


STATES = "biclique.operator.state.duration"


def test_how_long_a_query_was_in_a_state_is_told_when_it_leaves_it() -> None:
    stage = CountedStage()
    stage.cluster.create(joinquery())
    stage.clock.passes(2)
    stage.settle()
    assert stage.points(STATES) == {("New", "Starting"): (1, 2.0)}
    stage.clock.passes(21)
    stage.run_pods()
    stage.begins()
    stage.settle()
    assert stage.points(STATES)["Starting", "Running"] == (1, 21.0)
    stage.clock.passes(3600)
    stage.settle()
    stage.rests()
    stage.clock.passes(7)
    stage.change(suspend=False)
    stage.settle()
    found = stage.points(STATES)
    assert found["Running", "Suspended"] == (1, 3600.0)
    assert found["Suspended", "Restarting"] == (1, 7.0)
    assert len(found) == 4, "each once, whatever was looked at in between"


def test_it_goes_on_over_a_restart_of_the_operator() -> None:
    stage = CountedStage().is_running()
    stage.clock.passes(100)
    again = CountedStage(stage.cluster, stage.clock)
    again.change(suspend=True)
    again.settle()
    assert again.points(STATES) == {("Running", "Suspended"): (1, 100.0)}


def test_looks_are_counted_by_what_came_of_them() -> None:
    stage = CountedStage()
    stage.cluster.create(joinquery())
    stage.operator.list_everything()
    assert stage.operator.controller.look(stage.key) == 0.0
    assert stage.looks() == {"changed": 1}
    stage.settle()
    changed = stage.looks()["changed"]
    before = stage.looks().get("unchanged", 0)
    for _ in range(3):
        stage.operator.look(stage.key)
    assert stage.looks() == {"changed": changed, "unchanged": before + 3}
    for trouble, outcome in ((Conflict(409, "another one"), "conflict"), (Refused(403, "no"), "failed")):

        def refused(verb: str, kind: str, name: str, why: Exception = trouble) -> None:
            if kind == "JoinQuery":
                raise why

        stage.change(joiners={"memory": f"{len(outcome)}Gi"})
        stage.operator.list_everything()
        stage.cluster.before_write = refused
        with pytest.raises(type(trouble)):
            stage.operator.controller.look(stage.key)
        stage.cluster.before_write = lambda verb, kind, name: None
        assert stage.looks()[outcome] == 1
        stage.settle()
    assert stage.looks()["changed"] > changed


def test_a_look_at_which_all_is_refused_as_before_has_changed_nothing() -> None:
    stage = CountedStage()
    stage.cluster.create(joinquery())

    def refused(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("apply", "Role"):
            raise Refused(403, "no")

    stage.cluster.before_write = refused
    stage.settle()
    before, there = stage.looks(), stage.everything()
    for _ in range(3):
        stage.operator.look(stage.key)
    assert stage.everything() == there
    assert stage.looks() == {**before, "refused": before["refused"] + 3}
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.operator.look(stage.key)
    assert stage.looks() == {**before, "refused": before["refused"] + 3, "changed": before["changed"] + 1}


def test_a_query_that_went_meanwhile_is_told_as_gone() -> None:
    stage = CountedStage().is_running()
    stage.change(suspend=True)
    stage.operator.list_everything()
    stage.cluster.write_finalizers(stage.operator.query(stage.key), ())
    stage.delete()
    assert stage.operator.controller.look(stage.key) is None
    assert stage.looks()["gone"] == 1


def test_the_time_of_a_look_is_the_time_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that shows a quarter of a second more at each write."""
    stage = CountedStage()
    stage.cluster.create(joinquery())
    shown = [0.0]
    monkeypatch.setattr("biclique_operator.controller.time.perf_counter", lambda: shown[0])

    def later(verb: str, kind: str, name: str) -> None:
        shown[0] += 0.25

    stage.cluster.before_write = later
    stage.operator.look(stage.key)
    assert stage.points("biclique.operator.reconcile.duration") == {("changed",): (1, 0.25)}
