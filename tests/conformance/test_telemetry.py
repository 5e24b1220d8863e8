"""One suite for every telemetry: what the hosts rely on, whatever is behind the port.

The real one sends to a collector on this machine and is fetched from as Prometheus fetches; what is asked for is what
arrives there.
"""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families

from biclique.ports.telemetry import Identity, Point, Telemetry
from biclique.ports.telemetry_memory import MemoryTelemetry
from biclique.ports.telemetry_otel import OtelTelemetry
from biclique.ports.telemetry_settings import open_telemetry, wanted_of
from biclique.ports.trace_context import Context, context_of
from biclique.query.errors import QueryError
from infra.collector import Collector

JOINER = Identity("q", "joiner", "0L0.2", 3)
SECOND = 1_000_000_000
USER = Context(0xABC, 0xDEF, True)


@dataclass(frozen=True)
class Seen:
    name: str
    trace: int
    span: int
    parent: int
    links: tuple[int, ...]
    times: tuple[int, int]
    failure: str


@dataclass
class Bench:
    """`make`: with so much of the traces sampled. `spans`, `values`: what is seen once the telemetry is closed."""

    make: Callable[[float], Telemetry]
    spans: Callable[[], list[Seen]]
    values: Callable[[], dict[tuple[str, str], float]]  # name and unit's name -> value, histograms: how many


def memory_bench() -> Bench:
    made: list[MemoryTelemetry] = []

    def make(ratio: float) -> Telemetry:
        made.append(MemoryTelemetry(JOINER, lambda: ratio >= 1))
        return made[-1]

    def spans() -> list[Seen]:
        return [
            Seen(s.name, s.trace_id, s.span_id, s.parent, s.links, (s.started_ns, s.ended_ns), s.failure)
            for s in made[-1].spans
        ]

    def values() -> dict[tuple[str, str], float]:
        one = made[-1]
        found = {**one.counts, **one.shown(), **{key: float(len(all_)) for key, all_ in one.recorded.items()}}
        return {(name, dict(attributes).get("biclique.side", "")): value for (name, attributes), value in found.items()}

    return Bench(make, spans, values)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector().start()
    yield made
    made.stop()


def otel_bench(collector: Collector, patch: pytest.MonkeyPatch) -> Bench:
    def make(ratio: float) -> Telemetry:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
        patch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
        patch.setenv("OTEL_TRACES_SAMPLER_ARG", str(ratio))
        return opened()

    def spans() -> list[Seen]:
        return [
            Seen(
                s.name,
                int(s.trace, 16),
                int(s.span, 16),
                int(s.parent or "0", 16),
                tuple(int(link, 16) for link in s.links),
                (s.started_ns, s.ended_ns),
                s.failure,
            )
            for s in collector.spans
        ]

    def values() -> dict[tuple[str, str], float]:
        return {(p.name, p.attributes.get("biclique.side", "")): p.value for p in collector.points}

    return Bench(make, spans, values)


def opened() -> OtelTelemetry:
    import os

    found = open_telemetry(os.environ, JOINER)
    assert isinstance(found, OtelTelemetry)
    return found


@pytest.fixture(params=["memory", "otel"])
def bench(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bench:
    if request.param == "memory":
        return memory_bench()
    return otel_bench(request.getfixturevalue("collector"), monkeypatch)


def test_a_span_with_its_parts(bench: Bench) -> None:
    telemetry = bench.make(1)
    assert telemetry.tracing
    other = Context(5, 6, True)
    span = telemetry.begin("join", SECOND, str(USER), [str(other)], {"biclique.rows": 7})
    assert span is not None
    span.child("store", SECOND + 1, SECOND + 5)
    span.child("emit", SECOND + 5, SECOND + 9, links=[str(other)])
    span.end(SECOND + 10, failure="fenced")
    telemetry.close()
    by_name = {seen.name: seen for seen in bench.spans()}
    assert set(by_name) == {"join", "store", "emit"}
    join = by_name["join"]
    assert (join.trace, join.parent, join.links) == (USER.trace_id, USER.span_id, (6,))
    assert (join.times, join.failure) == ((SECOND, SECOND + 10), "fenced")
    assert context_of(span.context) == Context(USER.trace_id, join.span, True)
    for name, links in (("store", ()), ("emit", (6,))):
        part = by_name[name]
        assert (part.trace, part.parent, part.links, part.failure) == (join.trace, join.span, links, "")
    assert by_name["store"].times == (SECOND + 1, SECOND + 5)
    assert len({seen.span for seen in by_name.values()}) == 3


def test_a_trace_goes_on_where_its_context_says(bench: Bench) -> None:
    telemetry = bench.make(1)
    first = telemetry.begin("read", SECOND)
    assert first is not None
    second = telemetry.begin("dispatch", SECOND, first.context)
    assert second is not None
    first.end(SECOND + 1)
    second.end(SECOND + 2)
    telemetry.close()
    read, dispatch = sorted(bench.spans(), key=lambda seen: seen.times[1])
    assert read.parent == 0
    assert (dispatch.trace, dispatch.parent) == (read.trace, read.span)


def test_the_parent_decides_and_without_one_the_sampler(bench: Bench) -> None:
    telemetry = bench.make(0)
    assert telemetry.begin("read", SECOND) is None
    assert telemetry.begin("read", SECOND, str(USER._replace(sampled=False))) is None
    assert telemetry.begin("read", SECOND, "00-no-context") is None
    followed = telemetry.begin("read", SECOND, str(USER))
    assert followed is not None
    followed.end(SECOND + 1)
    telemetry.close()
    assert [seen.trace for seen in bench.spans()] == [USER.trace_id]


def test_a_rare_span_is_recorded_whatever_the_ratio(bench: Bench) -> None:
    telemetry = bench.make(1e-9 if bench.make.__qualname__.startswith("otel") else 0)
    assert telemetry.begin("read", SECOND) is None
    restore = telemetry.begin("restore", SECOND, rare=True)
    assert restore is not None
    restore.child("replay", SECOND, SECOND + 1)
    restore.end(SECOND + 1)
    telemetry.close()
    assert {seen.name for seen in bench.spans()} == {"restore", "replay"}


def test_counted_recorded_and_shown(bench: Bench) -> None:
    telemetry = bench.make(0)
    telemetry.show(lambda: [Point("biclique.state.rows", 5, {"biclique.side": "left"}), Point("biclique.load", 0.5)])
    telemetry.show(lambda: [Point("biclique.state.rows", 6, {"biclique.side": "right"})])
    telemetry.count("biclique.results", 3)
    telemetry.count("biclique.results", 4)
    for seconds in (0.1, 0.2, 4.0):
        telemetry.record("biclique.probe.duration", seconds)
    telemetry.close()
    assert bench.values() == {
        ("biclique.state.rows", "left"): 5,
        ("biclique.state.rows", "right"): 6,
        ("biclique.load", ""): 0.5,
        ("biclique.results", ""): 7,
        ("biclique.probe.duration", ""): 3,
    }


def test_what_is_not_in_the_catalogue_is_a_mistake(bench: Bench) -> None:
    telemetry = bench.make(0)
    with pytest.raises(KeyError):
        telemetry.count("biclique.nothing", 1)
    with pytest.raises(AssertionError):
        telemetry.count("biclique.load", 1)
    with pytest.raises(AssertionError):
        telemetry.record("biclique.probe.duration", 1, {"biclique.side": "left"})
    telemetry.close()


# --- the real one alone ----------------------------------------------------------------------------------------------


def test_whose_telemetry_it_is(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.namespace=shop,team=a")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=word")
    telemetry = otel_bench(collector, monkeypatch).make(1)
    telemetry.count("biclique.results", 1)
    span = telemetry.begin("join", SECOND)
    assert span is not None
    span.end(SECOND)
    telemetry.close()
    for found in (collector.spans[0], collector.points[0]):
        assert found.resource["service.name"] == "biclique-joiner"
        assert found.resource["service.namespace"] == "shop", "the user's wish"
        assert (found.resource["team"], found.resource["biclique.incarnation"]) == ("a", 3)
        whose = {"biclique.query": "q", "biclique.tier": "joiner", "biclique.unit": "0L0.2"}
        assert whose.items() <= found.resource.items()
        assert whose.items() <= found.attributes.items()
    assert collector.points[0].unit == "{row}"
    assert all(headers["authorization"] == "word" for headers in collector.requests)


def test_prometheus_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "prometheus")
    monkeypatch.setenv("OTEL_EXPORTER_PROMETHEUS_PORT", "0")
    telemetry, neighbour = opened(), opened()
    assert not telemetry.tracing, "nothing is sent where no endpoint is named"
    assert telemetry.metrics_port != neighbour.metrics_port
    telemetry.count("biclique.results", 2)
    telemetry.record("biclique.probe.duration", 0.2)
    telemetry.show(lambda: [Point("biclique.state.size", 9, {"biclique.side": "left"})])
    page = urllib.request.urlopen(f"http://localhost:{telemetry.metrics_port}/metrics", timeout=5).read().decode()
    samples = {s.name: s for family in text_string_to_metric_families(page) for s in family.samples}
    whose = {"biclique_query": "q", "biclique_tier": "joiner", "biclique_unit": "0L0.2"}
    assert samples["biclique_results_total"].value == 2
    assert samples["biclique_results_total"].labels == whose
    assert samples["biclique_probe_duration_seconds_count"].value == 1
    assert samples["biclique_state_size_bytes"].labels == {**whose, "biclique_side": "left"}
    telemetry.close()
    neighbour.close()
    again = opened()
    again.close()


def test_a_collector_that_is_away_costs_nothing_but_its_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_on")
    telemetry = opened()
    began = time.monotonic()
    for _ in range(5_000):  # more than the SDK's queue holds
        span = telemetry.begin("join", SECOND)
        assert span is not None
        span.end(SECOND)
    telemetry.close()
    assert time.monotonic() - began < 20, "close waits for seconds only"


def test_nothing_is_asked_for_without_a_setting() -> None:
    assert not wanted_of({}).anything
    assert not wanted_of({"OTEL_TRACES_SAMPLER": "always_on", "OTEL_SERVICE_NAME": "x"}).anything
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert wanted_of(endpoint).traces and wanted_of(endpoint).metrics
    assert not wanted_of({**endpoint, "OTEL_SDK_DISABLED": "true"}).anything
    assert not wanted_of({**endpoint, "OTEL_TRACES_EXPORTER": "none"}).traces
    traces = wanted_of({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"})
    assert traces.traces and not traces.metrics
    assert wanted_of({"OTEL_METRICS_EXPORTER": "prometheus"}).prometheus == ("localhost", 9464)
    assert open_telemetry({}, JOINER) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_METRICS_EXPORTER", "console"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_SAMPLER_ARG", "2"),
    ],
)
def test_what_cannot_be_done_is_said_at_the_start(name: str, value: str) -> None:
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_SAMPLER": "traceidratio", name: value}
    with pytest.raises(QueryError, match=name):
        wanted_of(settings)


def test_a_context_as_the_specification_writes_it() -> None:
    text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    context = context_of(text)
    assert context is not None and context.sampled and str(context) == text
    for bad in ("", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", text.upper(), text + "-x", "ff" + text[2:], text[:-1]):
        assert context_of(bad) is None
    later = context_of("01" + text[2:-1] + "3-more")
    assert later is not None and later.sampled
