"""Where a trace begins, and what the shuffler's driver measures."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from biclique.hosts.logs import end_logging
from biclique.hosts.shuffle.heartbeats import OBSERVED
from biclique.hosts.shuffle.measured import MeasuredHeartbeats
from biclique.hosts.shuffle.packing import Packing
from biclique.hosts.shuffle.tracing import TRACEPARENT, Tracing, tracing_of
from biclique.hosts.shuffle.watched import WatchedHeartbeats
from biclique.plan.make import make_plan
from biclique.ports.metrics import METRICS
from biclique.ports.reports import Figures
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_memory import MemoryTelemetry
from biclique.ports.trace_context import Context
from biclique.ports.wire import Message, Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.messages import SourceBlock
from biclique.tiers.progress import SourcePartition
from infra.collector import Collector
from tests.unit.tiers.building import source_block
from tests.unit.tiers.on_topics import on_topics

MANIFEST = on_topics(r="k BIGINT", s="k BIGINT", topics=("clicks", "views"))
QUERY = compile_manifest(MANIFEST)
FIRST, SECOND, UNSAMPLED = Context(1, 11, True), Context(2, 22, True), Context(3, 33, False)


@pytest.fixture(autouse=True)
def _logging_ends() -> Iterator[None]:
    """A task begins it in its process, which here is everybody's."""
    before = logging.getLogger().level
    yield
    end_logging()
    logging.getLogger().setLevel(before)


def records(*contexts: Context | str | None) -> pa.RecordBatch:
    """One for each context that it brings, of partition 0 of r."""
    count = len(contexts)
    headers = [None if context is None else str(context).encode() for context in contexts]
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.array([0] * count, pa.int32()),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "time": pa.array([1_000_000] * count, pa.int64()),
            "value": pa.array([b'{"k": 1}'] * count, pa.binary()),
            TRACEPARENT: pa.array(headers, pa.binary()),
        }
    )


def traced(memory: MemoryTelemetry, given: pa.RecordBatch) -> SourceBlock:
    return Tracing(memory, QUERY)(source_block(list(range(len(given)))), given, 5)


def memory(sampled: bool) -> MemoryTelemetry:
    return MemoryTelemetry(Identity("q", "shuffler", "worker", 1), lambda: sampled, itertools.count(100))


def test_a_block_goes_on_in_the_first_trace_that_its_records_bring() -> None:
    telemetry = memory(sampled=False)
    block = traced(telemetry, records(None, UNSAMPLED, "nonsense", FIRST, SECOND, FIRST))
    (span,) = telemetry.spans
    assert (span.name, span.trace_id, span.parent, span.links) == ("read", 1, 11, (22,))
    assert block.trace == str(Context(1, span.span_id, True))
    assert span.attributes["messaging.destination.name"] == "clicks"
    assert (span.attributes["biclique.offset.first"], span.attributes["biclique.offset.last"]) == (0, 5)


@pytest.mark.parametrize("sampled", [True, False])
def test_without_one_the_sampler_chooses(sampled: bool) -> None:
    telemetry = memory(sampled)
    block = traced(telemetry, records(None, UNSAMPLED))
    assert bool(block.trace) == sampled == bool(telemetry.spans)
    if sampled:
        assert telemetry.spans[0].parent == 0


def test_a_task_sends_the_context_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector().start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    tracing_of.cache_clear()
    sent = list(Packing(MANIFEST, "q", attempt=4, tracing=True)(iter([records(None, FIRST)])))
    tracing = tracing_of(QUERY, 4)
    assert isinstance(tracing, Tracing)
    tracing.telemetry.close()
    tracing_of.cache_clear()
    collector.stop()
    (row,) = [batch.to_pylist()[0] for batch in sent]
    headers = {header["key"]: header["value"] for header in row["headers"]}
    block = Wire(make_plan(QUERY)).decode(Message(row["value"], headers))
    (span,) = collector.spans
    assert isinstance(block, SourceBlock)
    assert block.trace == f"00-{span.trace}-{span.span}-01"
    assert (int(span.trace, 16), int(span.parent, 16)) == (1, 11)
    assert span.resource["service.name"] == "biclique-shuffler"
    assert not collector.points, "a worker measures nothing"


def report(batch: int, rows: int, read_to: int) -> dict[str, object]:
    ends = [json.dumps({"clicks": {"0": read_to}}), None]
    return {
        "batchId": batch,
        "numInputRows": rows,
        "durationMs": {"triggerExecution": 250},
        "sources": [{"endOffset": end} for end in ends],
        "observedMetrics": {OBSERVED: {"records_0": rows, "records_1": 0}},
    }


def test_the_driver_tells_of_each_batch_once() -> None:
    telemetry = memory(sampled=False)
    heartbeats = MeasuredHeartbeats(1, {}, ({"clicks": 0}, {"views": 1}), telemetry, make_plan(QUERY))
    for told in (report(0, 5, 5), report(0, 5, 5), report(1, 0, 5), report(2, 3, 8)):
        heartbeats.batch_ended(told)
    assert heartbeats.beats({SourcePartition(0, 0): 10}, 0) == []
    where = (("biclique.partition", 0), ("biclique.source", "r"))
    assert telemetry.shown() == {("biclique.source.lag", where): 2}
    assert telemetry.counts == {("biclique.source.records", (("biclique.source", "r"),)): 8}
    assert telemetry.recorded == {("biclique.batch.duration", ()): [0.25, 0.25]}
    told_names = {name for name, _ in (*telemetry.shown(), *telemetry.counts, *telemetry.recorded)}
    assert told_names == {metric.name for metric in METRICS if "shuffler" in metric.tiers}


def test_a_backlog_is_shown_while_nothing_is_read_too() -> None:
    """Of a source that pauses, and of all while dispatchers are behind: it froze, or was gone, just when it grew."""
    telemetry, read, paused = memory(sampled=False), SourcePartition(0, 0), SourcePartition(1, 0)
    heartbeats = MeasuredHeartbeats(1, {}, ({"clicks": 0},), telemetry, make_plan(QUERY))

    def shown() -> dict[str, float]:
        return {dict(attributes)["biclique.source"]: value for (_, attributes), value in telemetry.shown().items()}

    heartbeats.unread({read: 3, paused: 7}, {read: 5, paused: 8}, {paused}, 0)
    assert shown() == {"r": 2, "s": 1}
    heartbeats.begin({}, ({"clicks": 0},))
    heartbeats.batch_ended(report(0, 5, 5))
    assert set(heartbeats.partitions) == {read, paused}
    beats = heartbeats.beats({read: 5, paused: 20}, 0)
    assert shown() == {"r": 0, "s": 13}
    assert [(beat.source, beat.partition) for beat in beats] == [read], "what is not read does not beat"
    heartbeats.waits(lambda keys: dict.fromkeys(keys, 30))
    assert shown() == {"r": 25, "s": 23}


def test_a_source_shows_how_far_it_is_behind_and_how_fast_it_is_read() -> None:
    now = [100.0]
    heartbeats = WatchedHeartbeats(1, {}, ({"clicks": 0}, {"views": 1}), make_plan(QUERY), lambda: now[0])
    assert heartbeats.reports()["r"].figures == Figures(rate_rows_s=0.0)
    now[0] += 5
    for told in (report(0, 50, 50), report(0, 50, 50)):
        heartbeats.batch_ended(told)
    heartbeats.beats({SourcePartition(0, 0): 60}, 0)
    assert {name: shown.figures for name, shown in heartbeats.reports().items()} == {
        "r": Figures(rate_rows_s=10.0, lag_rows=10),
        "s": Figures(rate_rows_s=0.0),
    }
    now[0] += 20
    assert heartbeats.reports()["r"].figures == Figures(rate_rows_s=0.0, lag_rows=10)
