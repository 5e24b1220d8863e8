"""A span for each reconcile that acts, linked to the generation it acts on, with one inside it for each call that
changes something; and metrics."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from biclique_operator.cluster import Cluster
from biclique_operator.telemetry import Telemetry, generation_context, telemetry_with
from tests.operator.conftest import WatchedCluster
from tests.operator.manifests import joinquery
from tests.operator.stage import Clock, Operator, Stage


def recorded() -> tuple[Telemetry, InMemorySpanExporter, InMemoryMetricReader]:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    return telemetry_with([exporter], [reader], "test"), exporter, reader


def named(spans: tuple[ReadableSpan, ...], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def test_reconciles_link_to_their_generation_over_restarts_of_the_operator() -> None:
    telemetry, exporter, _ = recorded()
    stage = Stage()
    stage.operator = Operator(stage.cluster, stage.clock, telemetry)
    stage.cluster.create(joinquery())
    stage.settle()
    stage.operator = Operator(stage.cluster, stage.clock, telemetry)
    stage.run_pods()
    stage.settle()
    uid = stage.operator.query(stage.key)["metadata"]["uid"]
    stage.change(suspend=True)
    stage.settle()
    telemetry.close()
    spans = exporter.get_finished_spans()
    reconciles = named(spans, "reconcile")
    generations = [span for span in spans if span.name.startswith("generation")]
    assert [span.name for span in generations] == ["generation 1 of fits", "generation 2 of fits"]
    for span in reconciles:
        assert span.attributes is not None
        (link,) = span.links
        assert link.context == generation_context(uid, int(span.attributes["biclique.query.generation"]))  # type: ignore[arg-type]
    told = {span.context.trace_id for span in generations}
    assert {link.context.trace_id for span in reconciles for link in span.links} == told
    assert {span.attributes["biclique.query.generation"] for span in reconciles if span.attributes} == {1, 2}


def test_an_unchanged_query_makes_no_span() -> None:
    telemetry, exporter, reader = recorded()
    stage = Stage().is_running()
    stage.operator = Operator(stage.cluster, stage.clock, telemetry)
    for _ in range(3):
        stage.operator.look(stage.key)
    metrics = reader.get_metrics_data()
    telemetry.close()
    assert exporter.get_finished_spans() == ()
    assert metrics is not None
    found = [m for r in metrics.resource_metrics for s in r.scope_metrics for m in s.metrics]
    (reconciles,) = [metric for metric in found if metric.name == "biclique.operator.reconcile.duration"]
    (point,) = reconciles.data.data_points
    assert (point.count, point.attributes) == (3, {"outcome": "unchanged"})  # type: ignore[union-attr]


def test_what_no_reconcile_writes_is_counted_and_makes_no_span() -> None:
    telemetry, exporter, reader = recorded()
    with telemetry.writing("replace", "Lease", "biclique-operator"):
        pass
    metrics = reader.get_metrics_data()
    telemetry.close()
    assert exporter.get_finished_spans() == ()
    assert metrics is not None
    assert [m.name for r in metrics.resource_metrics for s in r.scope_metrics for m in s.metrics] == [
        "biclique.operator.writes"
    ]


@pytest.mark.slow
def test_each_call_that_changes_something_is_a_span_inside(cluster: WatchedCluster, namespace: str) -> None:
    telemetry, exporter, _ = recorded()
    watched = Cluster(cluster._api, telemetry)
    stage = Stage(watched, Clock(), namespace)
    stage.operator = Operator(watched, stage.clock, telemetry)
    cluster.create(joinquery(namespace=namespace))
    stage.operator.look(stage.key)
    stage.operator.look(stage.key)
    telemetry.close()
    spans = exporter.get_finished_spans()
    reconciles = {span.context.span_id for span in named(spans, "reconcile")}
    calls = [span for span in spans if span.parent is not None]
    assert {span.name for span in calls} >= {
        "apply ConfigMap",
        "create Pod",
        "status JoinQuery",
        "finalizers JoinQuery",
    }
    assert {span.parent.span_id for span in calls if span.parent} == reconciles
    assert not [span for span in spans if span.name.startswith("get")]
