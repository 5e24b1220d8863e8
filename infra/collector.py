"""A telemetry collector for tests and pictures: takes OTLP over HTTP on this machine, and keeps spans and points as
plain values. Not for production: it keeps everything."""

from __future__ import annotations

import gzip
import threading
import zlib
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

Values = dict[str, Any]


@dataclass(frozen=True)
class CollectedSpan:
    """Ids in hexadecimal; `parent` is empty for a root. `resource`: of the process that sent it."""

    name: str
    trace: str
    span: str
    parent: str
    links: tuple[str, ...]
    started_ns: int
    ended_ns: int
    failure: str
    attributes: Values
    resource: Values


@dataclass(frozen=True)
class CollectedPoint:
    """`value`: of a histogram, how many were recorded."""

    name: str
    unit: str
    value: float
    attributes: Values
    resource: Values


class Collector:
    """Listens from `start` to `stop`, at a port of its own. `host`: the test cluster's pods come over the bridge's."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.spans: list[CollectedSpan] = []
        self.points: list[CollectedPoint] = []
        self.requests: list[dict[str, str]] = []  # their headers
        self._server = ThreadingHTTPServer((host, 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, name="collector", daemon=True)

    @property
    def endpoint(self) -> str:
        return f"http://{self._server.server_address[0]!s}:{self._server.server_port}"

    def start(self) -> Collector:
        self._thread.start()
        return self

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                decoders = {"gzip": gzip.decompress, "deflate": zlib.decompress}
                body = decoders.get(self.headers.get("Content-Encoding", ""), bytes)(body)
                collector.requests.append(dict(self.headers.items()))
                if self.path == "/v1/traces":
                    collector.spans.extend(spans_of(body))
                elif self.path == "/v1/metrics":
                    collector.points.extend(points_of(body))
                self.send_response(200 if self.path in ("/v1/traces", "/v1/metrics") else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """What comes in is what tests look at; nobody reads a line for each request."""

        return Handler


def spans_of(body: bytes) -> list[CollectedSpan]:
    return [
        CollectedSpan(
            span.name,
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            tuple(link.span_id.hex() for link in span.links),
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            span.status.message if span.status.code == Status.STATUS_CODE_ERROR else "",
            _values(span.attributes),
            _values(resource.resource.attributes),
        )
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def points_of(body: bytes) -> list[CollectedPoint]:
    found = []
    for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                shape = metric.WhichOneof("data")
                for point in getattr(metric, shape).data_points:
                    value = point.count if shape == "histogram" else getattr(point, point.WhichOneof("value"))
                    found.append(
                        CollectedPoint(
                            metric.name,
                            metric.unit,
                            float(value),
                            _values(point.attributes),
                            _values(resource.resource.attributes),
                        )
                    )
    return found


def _values(attributes: Any) -> Values:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in attributes}
