"""Telemetry by the OpenTelemetry SDK: spans and metrics to an OTLP collector over HTTP; metrics for Prometheus to
fetch.

What leaves the machine, and where to, is said by the standard settings and by nothing else (`wanted_of`): without one
of them this module is not even imported. The SDK reads the rest of its settings itself.

Spans are sent from a thread of the SDK's, out of a bounded queue: when a collector is slow or away, spans are dropped
and the query goes on.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version

from opentelemetry.context import Context as SdkContext
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBasedTraceIdRatio
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    set_span_in_context,
)

from biclique.ports.metrics import METRICS, Kind, checked
from biclique.ports.telemetry import NONE, Attributes, Identity, Point
from biclique.ports.telemetry_settings import Wanted
from biclique.ports.trace_context import Context, context_of
from biclique.query.pod import METRICS_PORTS

SAMPLED_BLOCKS = 0.01  # of blocks without a parent, where OTEL_TRACES_SAMPLER says nothing: cheap at any rate
SECONDS_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SEND_MS = 1000.0  # a process that is killed takes along what it has not sent
CLOSE_S = 3.0
SCOPE = "biclique"
EMPTY = SdkContext()


class OtelTelemetry:
    def __init__(self, identity: Identity, wanted: Wanted) -> None:
        resource = _resource_of(identity)
        self._base = identity.attributes()
        self._readers: list[Callable[[], Iterable[Point]]] = []
        self._tracer: Tracer | None = None
        self._rare_tracer: Tracer | None = None
        self._endings: list[Callable[[], object]] = []
        self.metrics_port: int | None = None
        if wanted.traces:
            self._begin_tracing(resource, wanted)
        readers: list[MetricReader] = []
        if wanted.metrics:
            readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
        if wanted.prometheus is not None:
            readers.append(self._prometheus_reader(*wanted.prometheus))
        provider = MeterProvider(readers, resource, shutdown_on_exit=False)
        self._endings.append(provider.shutdown)
        meter = provider.get_meter(SCOPE)
        self._counters = {
            metric.name: meter.create_counter(metric.name, metric.unit, metric.meaning)
            for metric in METRICS
            if metric.kind is Kind.COUNTER
        }
        self._histograms = {
            metric.name: meter.create_histogram(
                metric.name, metric.unit, metric.meaning, explicit_bucket_boundaries_advisory=SECONDS_BOUNDS
            )
            for metric in METRICS
            if metric.kind is Kind.HISTOGRAM
        }
        for metric in METRICS:
            made = {Kind.TOTAL: meter.create_observable_counter, Kind.GAUGE: meter.create_observable_gauge}
            if metric.kind in made:
                made[metric.kind](metric.name, [self._observing(metric.name)], metric.unit, metric.meaning)

    # --- traces ------------------------------------------------------------------------------------------------------

    def _begin_tracing(self, resource: Resource, wanted: Wanted) -> None:
        sampler = (
            None if wanted.sampler_chosen else ParentBasedTraceIdRatio(SAMPLED_BLOCKS)
        )  # None: as the SDK reads it
        provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
        delay_ms = None if os.environ.get("OTEL_BSP_SCHEDULE_DELAY") else SEND_MS  # None: as the SDK reads it
        sending = BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=delay_ms)
        provider.add_span_processor(sending)
        self._tracer = provider.get_tracer(SCOPE)
        self._endings.append(provider.shutdown)
        if wanted.rare_spans:
            rare = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False)
            rare.add_span_processor(sending)
            self._rare_tracer = rare.get_tracer(SCOPE)

    @property
    def tracing(self) -> bool:
        return self._tracer is not None

    def begin(
        self,
        name: str,
        started_ns: int,
        parent: str = "",
        links: Sequence[str] = (),
        attributes: Attributes = NONE,
        rare: bool = False,
    ) -> OtelSpan | None:
        above = context_of(parent)
        tracer = self._rare_tracer if rare and above is None else self._tracer
        if tracer is None:
            return None
        context = EMPTY if above is None else set_span_in_context(NonRecordingSpan(_sdk_context(above)), EMPTY)
        # With a parent in another process: its span made the message that this one consumes.
        kind = SpanKind.INTERNAL if above is None else SpanKind.CONSUMER
        told = {**self._base, **attributes}
        span = tracer.start_span(name, context, kind, told, _links(links), started_ns)
        return OtelSpan(tracer, span) if isinstance(span, Span) and span.is_recording() else None

    # --- metrics -----------------------------------------------------------------------------------------------------

    def count(self, name: str, amount: float, attributes: Attributes = NONE) -> None:
        checked(name, (Kind.COUNTER,), tuple(attributes))
        self._counters[name].add(amount, {**self._base, **attributes})

    def record(self, name: str, value: float, attributes: Attributes = NONE) -> None:
        checked(name, (Kind.HISTOGRAM,), tuple(attributes))
        self._histograms[name].record(value, {**self._base, **attributes})

    def show(self, read: Callable[[], Iterable[Point]]) -> None:
        self._readers.append(read)

    def _observing(self, name: str) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(options: CallbackOptions) -> list[Observation]:
            points = [point for read in self._readers for point in read() if point.name == name]
            for point in points:
                checked(name, (Kind.TOTAL, Kind.GAUGE), tuple(point.attributes))
            return [Observation(point.value, {**self._base, **point.attributes}) for point in points]

        return observe

    def _prometheus_reader(self, host: str, first_port: int) -> MetricReader:
        """Several units may share a machine: each takes the next port that is free. In a pod of its own it is the
        first."""
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import CollectorRegistry, start_http_server

        registry = CollectorRegistry()
        reader = PrometheusMetricReader(scope_info_enabled=False, registry=registry)
        for port in range(first_port, first_port + METRICS_PORTS):
            try:
                server, thread = start_http_server(port, host, registry)
            except OSError:
                if port == first_port + METRICS_PORTS - 1:
                    raise
                continue
            self.metrics_port = server.server_port
            break

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join(CLOSE_S)

        self._endings.append(stop)
        return reader

    def close(self) -> None:
        def end() -> None:
            for ending in self._endings:
                ending()

        closing = threading.Thread(target=end, name="telemetry-close", daemon=True)
        closing.start()
        closing.join(CLOSE_S)


class OtelSpan:
    def __init__(self, tracer: Tracer, span: Span) -> None:
        self._tracer, self._span = tracer, span

    @property
    def context(self) -> str:
        own = self._span.get_span_context()
        return str(Context(own.trace_id, own.span_id, True))

    def child(
        self, name: str, started_ns: int, ended_ns: int, attributes: Attributes = NONE, links: Sequence[str] = ()
    ) -> None:
        within = set_span_in_context(self._span, EMPTY)
        span = self._tracer.start_span(name, within, SpanKind.INTERNAL, attributes, _links(links), started_ns)
        span.end(ended_ns)

    def end(self, ended_ns: int, attributes: Attributes = NONE, failure: str = "") -> None:
        self._span.set_attributes(attributes)
        if failure:
            self._span.set_status(Status(StatusCode.ERROR, failure))
        self._span.end(ended_ns)


def _sdk_context(context: Context) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED if context.sampled else TraceFlags.DEFAULT)
    return SpanContext(context.trace_id, context.span_id, True, flags)


def _links(links: Sequence[str]) -> list[Link]:
    return [Link(_sdk_context(found)) for link in links if (found := context_of(link))]


def _resource_of(identity: Identity) -> Resource:
    """What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say comes first: it is the user's wish."""
    ours: dict[str, str | int] = {
        "service.name": f"biclique-{identity.tier}",
        "service.namespace": identity.query,
        "service.instance.id": f"{identity.query}/{identity.tier}/{identity.unit}/{identity.incarnation}",
        "service.version": version("biclique"),
        "biclique.query": identity.query,
        "biclique.tier": identity.tier,
        "biclique.unit": identity.unit,
        "biclique.incarnation": identity.incarnation,
    }
    pod = os.environ.get("SPARK_EXECUTOR_POD_NAME")  # as Spark tells its executors in Kubernetes
    if pod:
        ours["k8s.pod.name"] = pod
    said = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")
    named = {pair.partition("=")[0].strip() for pair in said}
    if os.environ.get("OTEL_SERVICE_NAME"):
        named.add("service.name")
    return Resource.create({key: value for key, value in ours.items() if key not in named})
