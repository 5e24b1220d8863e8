"""Draws docs/tracing/one-tuple.svg: `python -m tests.dataplane.trace_picture` starts a Kafka, a Redis and the tiers,
sends one record with a trace of its own through them, keeps the spans that came of it beside the picture, and draws
them. `--redraw` draws what was kept."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from infra import processes
from infra.collector import CollectedSpan, Collector
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.followed import follow_one, settings_of
from tests.dataplane.query import KafkaQuery
from tests.dataplane.trace_svg import picture

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "tracing"
SPANS, PICTURE = FOLDER / "one-tuple.json", FOLDER / "one-tuple.svg"


def run() -> Sequence[CollectedSpan]:
    collector = Collector().start()
    os.environ.update(settings_of(collector))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kafka = KafkaServer(folder / "kafka", processes.free_port(), processes.free_port())
        redis = RedisServer(folder / "redis", processes.free_port())
        started = [kafka.start(), redis.start()]
        try:
            query = KafkaQuery(kafka, redis, folder, name="pairs")
            try:
                return follow_one(query, collector).spans
            finally:
                query.stop()
        finally:
            for process in started:
                processes.stop(process)
            collector.stop()


def plain(spans: Sequence[CollectedSpan]) -> list[dict[str, Any]]:
    """What a picture needs, in microseconds since the first span began."""
    begin = min(span.started_ns for span in spans)
    found = [
        {
            "tier": str(span.resource["service.name"]).removeprefix("biclique-"),
            "unit": unit_of(span),
            "name": span.name,
            "trace": span.trace,
            "span": span.span,
            "parent": span.parent,
            "start_us": (span.started_ns - begin) // 1000,
            "end_us": (span.ended_ns - begin) // 1000,
            "note": note_of(span),
        }
        for span in spans
    ]
    return sorted(found, key=lambda span: (span["start_us"], span["end_us"], span["span"]))


def unit_of(span: CollectedSpan) -> str:
    unit = str(span.resource["biclique.unit"])
    return "" if unit.startswith("worker") else unit


def note_of(span: CollectedSpan) -> str:
    told = span.attributes
    if "biclique.role" in told:
        return str(told["biclique.role"])
    if "messaging.destination.name" in told:
        return f"{told['biclique.source']}, offset {told['biclique.offset.last']}"
    return ""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.dataplane.trace_picture", description=__doc__)
    parser.add_argument("--redraw", action="store_true", help="from the spans that were kept")
    if not parser.parse_args().redraw:
        FOLDER.mkdir(exist_ok=True)
        SPANS.write_text(json.dumps(plain(run()), indent=1) + "\n", encoding="utf-8")
    PICTURE.write_text(picture(json.loads(SPANS.read_text(encoding="utf-8"))), encoding="utf-8")


if __name__ == "__main__":
    main()
