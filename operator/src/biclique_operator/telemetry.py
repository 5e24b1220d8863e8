"""What the operator tells of itself: a span for each reconcile, with one inside it for each call that changes
something, and its metrics. By the standard OTEL_* settings, and by nothing else.

All that happens to one generation of a query hangs together: the generation has a trace of its own, whose id follows
from the query's uid and the generation, and each reconcile links to it. So whoever looks at what an edit caused finds
it all, whichever operator did it, and over any number of restarts."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, NoOpMeterProvider, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, NoOpTracer, SpanContext, Status, StatusCode, TraceFlags, Tracer

SCOPE = "biclique-operator"
METRICS_PORT = 9464
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LONG_SECONDS = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 90.0, 150.0, 300.0, 600.0, 1800.0)


@dataclass
class Metrics:
    """Counts and times. Gauges are read when somebody fetches: see `Telemetry.show`."""

    reconciles: Callable[[float, str], None]
    waited: Callable[[float], None]
    wrote: Callable[[str, str], None]
    transition: Callable[[str, str, float], None]


def generation_context(uid: str, generation: int) -> SpanContext:
    digest = hashlib.sha256(f"{uid}/{generation}".encode()).digest()
    trace_id, span_id = int.from_bytes(digest[:16], "big") or 1, int.from_bytes(digest[16:24], "big") or 1
    return SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class _GivenIds(RandomIdGenerator):
    """Random, but for a span whose ids follow from what it is about."""

    def __init__(self) -> None:
        self._given = threading.local()

    @contextmanager
    def given(self, context: SpanContext) -> Iterator[None]:
        self._given.context = context
        try:
            yield
        finally:
            self._given.context = None

    def generate_trace_id(self) -> int:
        context = getattr(self._given, "context", None)
        return context.trace_id if context is not None else super().generate_trace_id()

    def generate_span_id(self) -> int:
        context = getattr(self._given, "context", None)
        return context.span_id if context is not None else super().generate_span_id()


@dataclass
class Telemetry:
    tracer: Tracer
    meter: Meter
    ids: _GivenIds = field(default_factory=_GivenIds)
    endings: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        histogram, counter = self.meter.create_histogram, self.meter.create_counter
        reconciles = histogram(
            "biclique.operator.reconcile.duration",
            "s",
            "A reconcile, from its start to its last call",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        waits = histogram(
            "biclique.operator.queue.wait",
            "s",
            "How long a key that was due has waited for its turn",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        writes = counter("biclique.operator.writes", "{call}", "Calls of Kubernetes' API that change something")
        states = histogram(
            "biclique.operator.state.duration",
            "s",
            "How long a query has been in a state before it came to the next one",
            explicit_bucket_boundaries_advisory=LONG_SECONDS,
        )
        self.metrics = Metrics(
            reconciles=lambda seconds, outcome: reconciles.record(seconds, {"outcome": outcome}),
            waited=lambda seconds: waits.record(seconds),
            wrote=lambda verb, kind: writes.add(1, {"verb": verb, "kind": kind}),
            transition=lambda before, after, seconds: states.record(seconds, {"from": before, "to": after}),
        )

    def show(
        self, name: str, unit: str, meaning: str, read: Callable[[], Iterable[tuple[float, dict[str, str]]]]
    ) -> None:
        """A gauge. `read`: values, each with its attributes."""

        def observe(options: CallbackOptions) -> Iterable[Observation]:
            return [Observation(value, attributes) for value, attributes in read()]

        self.meter.create_observable_gauge(name, [observe], unit, meaning)

    @contextmanager
    def reconciling(self, namespace: str, name: str, uid: str, generation: int, first: bool) -> Iterator[trace.Span]:
        """`first`: nobody has acted on this generation yet. Its own span is made then, for others to link to."""
        attributes: dict[str, str | int] = {
            "k8s.namespace.name": namespace,
            "biclique.query": name,
            "biclique.query.uid": uid,
            "biclique.query.generation": generation,
        }
        context = generation_context(uid, generation)
        if first:
            with self.ids.given(context):
                begun = self.tracer.start_span(f"generation {generation} of {name}", Context(), attributes=attributes)
            begun.end()
        links = [Link(context)]
        with self.tracer.start_as_current_span("reconcile", Context(), attributes=attributes, links=links) as span:
            yield span

    @contextmanager
    def writing(self, verb: str, kind: str, name: str) -> Iterator[None]:
        """A span of what a reconcile changes. What is written outside of one, as the Lease every few seconds, is
        counted and no more: a trace of it alone tells nothing, and there is no end of them."""
        self.metrics.wrote(verb, kind)
        if not trace.get_current_span().get_span_context().is_valid:
            yield
            return
        attributes = {"k8s.verb": verb, "k8s.kind": kind, "k8s.name": name}
        with self.tracer.start_as_current_span(f"{verb} {kind}", attributes=attributes) as span:
            try:
                yield
            except Exception as error:  # whatever it is, it is somebody else's to handle; here it is told of
                span.set_status(Status(StatusCode.ERROR, str(error)[:200]))
                raise

    def close(self) -> None:
        for end in self.endings:
            end()


def silent() -> Telemetry:
    return Telemetry(NoOpTracer(), NoOpMeterProvider().get_meter(SCOPE))


def telemetry_with(exporters: Iterable[SpanExporter], readers: Iterable[MetricReader], identity: str) -> Telemetry:
    resource = Resource.create({"service.name": SCOPE, "service.instance.id": identity})
    ids = _GivenIds()
    # The ratio of the settings is for blocks, of which there are many; a reconcile that does something is rare.
    tracing = TracerProvider(ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=ids)
    for exporter in exporters:
        tracing.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1000))
    metering = MeterProvider(list(readers), resource, shutdown_on_exit=False)
    endings: list[Callable[[], object]] = [tracing.shutdown, metering.shutdown]
    return Telemetry(tracing.get_tracer(SCOPE), metering.get_meter(SCOPE), ids, endings)


def open_telemetry(identity: str) -> Telemetry:
    """What the settings ask for; nothing is loaded for what they do not."""
    wanted = os.environ
    if wanted.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return silent()
    exporters: list[SpanExporter] = []
    readers: list[MetricReader] = []
    chosen = {word.strip() for word in (wanted.get("OTEL_METRICS_EXPORTER") or "otlp").split(",")}
    if _sends("TRACES") and wanted.get("OTEL_TRACES_EXPORTER") != "none":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        exporters.append(OTLPSpanExporter())
    if _sends("METRICS") and "otlp" in chosen:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    if "prometheus" in chosen:
        from opentelemetry.exporter.prometheus import PrometheusMetricReader
        from prometheus_client import start_http_server

        port = int(wanted.get("OTEL_EXPORTER_PROMETHEUS_PORT") or METRICS_PORT)
        start_http_server(port, wanted.get("OTEL_EXPORTER_PROMETHEUS_HOST") or "0.0.0.0")
        readers.append(PrometheusMetricReader())
    return telemetry_with(exporters, readers, identity) if exporters or readers else silent()


def _sends(signal: str) -> bool:
    names = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    return any(os.environ.get(name) for name in names)
