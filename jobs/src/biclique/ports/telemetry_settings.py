"""Which telemetry the standard settings ask for, and whoever gives it.

Nothing leaves a machine unless a setting names where to: OTEL_EXPORTER_OTLP_ENDPOINT, or the same for traces or metrics
alone. Prometheus fetches, so OTEL_METRICS_EXPORTER must say so. OTEL_SDK_DISABLED=true turns everything off.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from biclique.ports.telemetry import Identity, Telemetry
from biclique.query.errors import QueryError

LOG = logging.getLogger(__name__)
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL = "http/protobuf"
SAMPLERS = ("always_on", "always_off", "traceidratio")
PROMETHEUS_HOST, PROMETHEUS_PORT = "localhost", 9464  # as the specification has them


@dataclass(frozen=True)
class Wanted:
    """`prometheus`: where it may fetch. `sampler_chosen`: by the user. `rare_spans`: see `Telemetry.begin`."""

    traces: bool
    metrics: bool
    prometheus: tuple[str, int] | None
    sampler_chosen: bool
    rare_spans: bool

    @property
    def anything(self) -> bool:
        return self.traces or self.metrics or self.prometheus is not None


def wanted_of(settings: Mapping[str, str]) -> Wanted:
    """Raises QueryError for what we cannot do: better at the start than never sent."""
    if settings.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return Wanted(False, False, None, False, False)
    metrics = _exporters(settings, "OTEL_METRICS_EXPORTER", ("otlp", "prometheus", "none"))
    traces = _exporters(settings, "OTEL_TRACES_EXPORTER", ("otlp", "none"))
    sampler = settings.get("OTEL_TRACES_SAMPLER", "")
    if sampler and sampler.removeprefix("parentbased_") not in SAMPLERS:
        known = ", ".join([*SAMPLERS, *(f"parentbased_{name}" for name in SAMPLERS)])
        raise QueryError("OTEL_TRACES_SAMPLER", f"{sampler} is no sampler that we have", f"choose one of {known}")
    ratio = _ratio(settings) if sampler.endswith("traceidratio") else float(not sampler.endswith("off"))
    return Wanted(
        "otlp" in traces and _endpoint(settings, "TRACES"),
        "otlp" in metrics and _endpoint(settings, "METRICS"),
        _prometheus(settings) if "prometheus" in metrics else None,
        bool(sampler),
        ratio > 0,
    )


def open_telemetry(settings: Mapping[str, str], identity: Identity) -> Telemetry | None:
    """None: nobody asked, and nothing is loaded for it. `settings`: this process's, which the SDK reads too."""
    wanted = wanted_of(settings)
    if not wanted.anything:
        return None
    from biclique.ports.telemetry_otel import OtelTelemetry

    telemetry = OtelTelemetry(identity, wanted)
    if telemetry.metrics_port is not None:
        port = telemetry.metrics_port
        LOG.info("metrics are served at port %d", port, extra={"event": "metrics.served", "port": port})
    return telemetry


def open_tracing(settings: Mapping[str, str], identity: Identity) -> Telemetry | None:
    """Traces alone: of a process that has nothing to measure."""
    wanted = replace(wanted_of(settings), metrics=False, prometheus=None)
    if not wanted.anything:
        return None
    from biclique.ports.telemetry_otel import OtelTelemetry

    return OtelTelemetry(identity, wanted)


def _endpoint(settings: Mapping[str, str], signal: str) -> bool:
    for name in (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if settings.get(name, PROTOCOL) != PROTOCOL:
            raise QueryError(name, f"{settings[name]} is not spoken here", f"leave it away, or write {PROTOCOL}")
    return any(settings.get(name) for name in (ENDPOINT, f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))


def _exporters(settings: Mapping[str, str], name: str, known: tuple[str, ...]) -> set[str]:
    chosen = {word.strip() for word in settings.get(name, "").split(",")} - {""} or {"otlp"}
    if chosen - set(known):
        raise QueryError(name, f"{', '.join(sorted(chosen - set(known)))}: no such exporter", f"choose of {known}")
    return chosen


def _prometheus(settings: Mapping[str, str]) -> tuple[str, int]:
    name = "OTEL_EXPORTER_PROMETHEUS_PORT"
    text = settings.get(name) or str(PROMETHEUS_PORT)
    if not (text.isdigit() and 0 <= int(text) < 1 << 16):
        raise QueryError(name, f"{text} is no port", f"write a number, as {PROMETHEUS_PORT}")
    return settings.get("OTEL_EXPORTER_PROMETHEUS_HOST") or PROMETHEUS_HOST, int(text)


def _ratio(settings: Mapping[str, str]) -> float:
    name, text = "OTEL_TRACES_SAMPLER_ARG", settings.get("OTEL_TRACES_SAMPLER_ARG") or "1"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise QueryError(name, f"{text} is no share of traces", "write a number from 0 to 1, as 0.01")
    return ratio
