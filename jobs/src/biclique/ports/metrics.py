"""Every metric of Biclique, once. Names and units as OpenTelemetry's conventions have them: the unit is not in the
name, times are seconds, sizes bytes, and what is counted stands in braces.

docs/metrics.md is held against this list, in both directions, by tests/unit/docs/test_metrics_page.py.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

SIDE, SOURCE, PARTITION, FATE, OUTCOME = (
    f"biclique.{name}" for name in ("side", "source", "partition", "fate", "outcome")
)
UNITS = ("dispatcher", "joiner", "merger")
STATEFUL = ("joiner", "merger")


class Kind(Enum):
    COUNTER = "counter"  # each addition is told
    TOTAL = "counter, as it stands"  # a sum that somebody else keeps
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    """`attributes`: besides the query, tier and unit, which every measurement has."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    tiers: tuple[str, ...]
    attributes: tuple[str, ...] = ()


METRICS = (
    # What became of the records.
    Metric(
        "biclique.source.records",
        Kind.COUNTER,
        "{record}",
        "Records read from a source's topic. What is read again after a restart counts again.",
        ("shuffler",),
        (SOURCE,),
    ),
    Metric(
        "biclique.source.lag",
        Kind.GAUGE,
        "{record}",
        "Records of a source partition that are in Kafka and have not been read.",
        ("shuffler",),
        (SOURCE, PARTITION),
    ),
    Metric(
        "biclique.tuples",
        Kind.TOTAL,
        "{tuple}",
        "Records of a source by what became of them: good, filtered, failed (WHERE failed on them), late, dead,"
        " dropped. Committed with the query's progress, so exact, and a restart goes on with it.",
        ("dispatcher",),
        (SOURCE, FATE),
    ),
    Metric(
        "biclique.expressions.failed",
        Kind.TOTAL,
        "{failure}",
        "Expressions that failed (a division by zero, an overflow) in WHERE, keys, predicates over pairs and the select"
        " list. Committed with the progress.",
        ("dispatcher", "joiner"),
    ),
    Metric("biclique.tuples.stored", Kind.TOTAL, "{tuple}", "Tuples stored since this start.", ("joiner",)),
    Metric("biclique.tuples.probed", Kind.TOTAL, "{tuple}", "Tuples that probed since this start.", ("joiner",)),
    Metric("biclique.tuples.expired", Kind.TOTAL, "{tuple}", "Tuples expired since this start.", ("joiner",)),
    Metric(
        "biclique.tuples.moved",
        Kind.TOTAL,
        "{tuple}",
        "Tuples taken over from another unit since this start.",
        ("joiner",),
    ),
    Metric("biclique.matches", Kind.TOTAL, "{match}", "Matches found since this start.", ("joiner",)),
    Metric(
        "biclique.payload.rows",
        Kind.TOTAL,
        "{row}",
        "With semijoin transport: rows whose payload was asked for, since this start.",
        ("joiner",),
    ),
    Metric("biclique.payload.read", Kind.TOTAL, "{block}", "Blocks of shuffled that were read for it.", ("joiner",)),
    Metric("biclique.payload.cached", Kind.TOTAL, "{block}", "Blocks that need not be read for it.", ("joiner",)),
    Metric("biclique.payload.io", Kind.TOTAL, "By", "Bytes of the blocks that were read, in memory.", ("joiner",)),
    Metric("biclique.results", Kind.COUNTER, "{row}", "Result rows committed to the output topic.", STATEFUL),
    # How far behind.
    Metric(
        "biclique.log.lag",
        Kind.GAUGE,
        "{offset}",
        "Offsets of the unit's input that it has not read. Offsets of transactions' ends count among them.",
        UNITS,
    ),
    Metric(
        "biclique.frontier.age",
        Kind.GAUGE,
        "s",
        "The wall clock less the epoch that the unit has come to: how old the newest handled input is.",
        UNITS,
    ),
    Metric(
        "biclique.watermark.delay",
        Kind.GAUGE,
        "s",
        "The wall clock less the event time below which nothing is accepted any more. Not shown before there is one.",
        UNITS,
    ),
    # Where time goes.
    Metric(
        "biclique.load",
        Kind.GAUGE,
        "1",
        "Share of the last ten seconds in which the unit did not rest. What the scaler reads.",
        UNITS,
    ),
    Metric("biclique.busy.time", Kind.TOTAL, "s", "Time in which the unit did not rest, since this start.", UNITS),
    Metric("biclique.batch.duration", Kind.HISTOGRAM, "s", "One micro-batch of the shuffler.", ("shuffler",)),
    Metric(
        "biclique.route.duration",
        Kind.HISTOGRAM,
        "s",
        "A dispatcher's turn between read and transaction: accept, stamp, route.",
        ("dispatcher",),
    ),
    Metric("biclique.store.duration", Kind.HISTOGRAM, "s", "A step's tuples put into the state.", ("joiner",)),
    Metric("biclique.probe.duration", Kind.HISTOGRAM, "s", "A step's matches found.", ("joiner",)),
    Metric(
        "biclique.fetch.duration",
        Kind.HISTOGRAM,
        "s",
        "With semijoin transport: the payload of a transaction's matches read from shuffled.",
        ("joiner",),
    ),
    Metric("biclique.emit.duration", Kind.HISTOGRAM, "s", "A step's results made of its matches.", ("joiner",)),
    Metric("biclique.merge.duration", Kind.HISTOGRAM, "s", "A step's partial results merged.", ("merger",)),
    Metric(
        "biclique.transaction.duration",
        Kind.HISTOGRAM,
        "s",
        "One transaction, from its first record to the answer. Its outcome is committed, fenced or unknown.",
        UNITS,
        (OUTCOME,),
    ),
    # State and what guards it.
    Metric(
        "biclique.state.rows",
        Kind.GAUGE,
        "{row}",
        "Tuples stored, by the side they belong to; of a merger: groups.",
        STATEFUL,
        (SIDE,),
    ),
    Metric("biclique.state.size", Kind.GAUGE, "By", "Bytes of them.", STATEFUL, (SIDE,)),
    Metric("biclique.inbox.rows", Kind.GAUGE, "{row}", "Rows read that wait for the frontier.", ("joiner",)),
    Metric("biclique.inbox.size", Kind.GAUGE, "By", "Bytes of them.", ("joiner",)),
    Metric(
        "biclique.memory.pressure",
        Kind.GAUGE,
        "1",
        "How hard memory presses: 0 not, 1 reads slowly, 2 sheds what it can, 3 stands still, whatever its load says.",
        STATEFUL,
    ),
    Metric(
        "biclique.checkpoint.age",
        Kind.GAUGE,
        "s",
        "Since the unit's last checkpoint of this start, or since the start.",
        STATEFUL,
    ),
    Metric("biclique.checkpoint.size", Kind.GAUGE, "By", "Bytes that the last checkpoint wrote.", STATEFUL),
    Metric("biclique.checkpoint.duration", Kind.HISTOGRAM, "s", "One checkpoint: seal, put, publish.", STATEFUL),
    Metric(
        "biclique.restore.duration",
        Kind.HISTOGRAM,
        "s",
        "From the unit's start to its first look at its input: fence, progress, checkpoint.",
        UNITS,
    ),
    Metric(
        "biclique.replay.duration",
        Kind.HISTOGRAM,
        "s",
        "From there until the log behind the checkpoint is read again and the unit goes on.",
        STATEFUL,
    ),
    Metric(
        "biclique.restarts",
        Kind.TOTAL,
        "{restart}",
        "Starts of the unit after its first, since the query began.",
        UNITS,
    ),
    Metric("process.cpu.time", Kind.TOTAL, "s", "CPU time of the unit's process.", UNITS),
    Metric("process.memory.usage", Kind.GAUGE, "By", "Resident memory of the unit's process.", UNITS),
)
BY_NAME = {metric.name: metric for metric in METRICS}


def checked(name: str, kinds: tuple[Kind, ...], attributes: tuple[str, ...]) -> Metric:
    """Of the catalogue, or a mistake of ours."""
    metric = BY_NAME[name]
    assert metric.kind in kinds, f"{name} is a {metric.kind.value}"
    assert set(attributes) <= set(metric.attributes), f"{name} has {metric.attributes}, not {attributes}"
    return metric
