"""Records of Kafka to source blocks: every record has one mark, bad ones keep their bytes, and a block that went over
the wire is the block that was packed."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Vector
from biclique.hosts.shuffle.driver import for_a_person
from biclique.hosts.shuffle.packing import ABOUT, NO_TIME, PACKED, Packer, Packing
from biclique.plan.make import make_plan
from biclique.ports.wire import Message, Wire
from biclique.query.compile import compile_manifest
from biclique.tiers.cutting import RAW_BYTES_MAX, RECORD_BYTES_MAX, TUPLE_BYTES_MAX
from biclique.tiers.messages import Mark, SourceBlock
from biclique.tiers.progress import SourcePartition

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: packed}
spec:
  sources:
    - name: r
      schema: "k INT NOT NULL, s STRING, at TIMESTAMP"
      eventTime: {column: at}
      kafka: {bootstrapServers: "b:1", topic: r, format: json}
    - name: s
      schema: "k INT"
      kafka: {bootstrapServers: "b:1", topic: s, format: json}
  sql: "SELECT r.s FROM r JOIN s ON r.k = s.k WHERE r.k > 0"
  topics: {partitions: 3}
  plan: {transport: tuples}
  output: {kafka: {bootstrapServers: "b:1", topic: out, format: json}}
"""
QUERY = compile_manifest(MANIFEST)
ARRIVED = 1_767_225_600_000_000  # 2026-01-01, as the rows
R, S = SourcePartition(0, 1), SourcePartition(1, 0)


def records(
    values: list[bytes | None], key: SourcePartition = R, first: int = 100, arrived: int = ARRIVED
) -> pa.RecordBatch:
    """Offsets in steps of two: markers stand between."""
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "source": pa.array([key.source] * count, pa.int32()),
            "partition": pa.array([key.partition] * count, pa.int32()),
            "offset": pa.array([first + 2 * n for n in range(count)], pa.int64()),
            "time": pa.array([arrived + n for n in range(count)], pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def row(k: object, text: str = "x", at: str = "2026-01-01T00:00:00Z") -> bytes:
    return json.dumps({"k": k, "s": text, "at": at}).encode()


def packed(values: list[bytes | None], key: SourcePartition = R) -> SourceBlock:
    return Packer(QUERY).pack(key, 7, records(values, key))


def values_of(vector: Vector) -> list[object]:
    return vector.values.to_pylist() if isinstance(vector.values, pa.Array) else vector.values.tolist()


def test_good_filtered_and_dead_records_keep_their_order() -> None:
    raw = [row(1), row(0), b'{"k": "one"}', None, row(2, "two\nlines"), row(None)]
    block = packed(raw)
    assert (block.source, block.partition, block.predecessor) == (0, 1, 7)
    assert block.offsets.tolist() == [100, 102, 104, 106, 108, 110]
    assert block.marks.tolist() == [m.value for m in (Mark.GOOD, Mark.FILTERED, *[Mark.DEAD] * 2, Mark.GOOD, Mark.DEAD)]
    assert [values_of(column) for column in block.columns] == [[1, 2], ["x", "two\nlines"]]
    assert [(d.offset, d.raw, d.place) for d in block.dead] == [
        (104, b'{"k": "one"}', "r, partition 1, offset 104, column k"),
        (106, b"", "r, partition 1, offset 106"),
        (110, raw[5], "r, partition 1, offset 110, column k"),
    ]
    assert all(record.reason for record in block.dead)


def test_the_records_own_time_where_no_column_has_it() -> None:
    assert packed([b'{"k": 1}', b'{"k": 2}'], S).times.tolist() == [ARRIVED, ARRIVED + 1]


@pytest.mark.parametrize("value", [b'{\n "k": 3,\r\n "s": "x",\n "at": "2026-01-01T00:00:00Z"}\n', row(3) + b"\r\n"])
def test_an_object_may_stand_on_several_lines(value: bytes) -> None:
    block = packed([row(1), value, row(5)])
    assert values_of(block.columns[0]) == [1, 3, 5]


@pytest.mark.parametrize(
    "value", [b"", b"\n", b'{"k": 1}\n{"k": 2}', b'{"k": 1, "s": "a\nb"}', b"\xff\xfe", b"[1]", b"\x00"]
)
def test_what_is_no_object_is_dead_with_its_bytes_and_spoils_no_neighbour(value: bytes) -> None:
    block = packed([row(1), value, row(5)])
    assert [record.raw for record in block.dead] == [value]
    assert values_of(block.columns[0]) == [1, 5]


def test_a_task_names_the_block_before_and_keeps_partitions_apart() -> None:
    wire, packing = Wire(make_plan(QUERY)), Packing(MANIFEST, "q")
    mixed = pa.Table.from_batches([records([row(1)]), records([b'{"k": 1}'], S)]).combine_chunks().to_batches()
    sent = list(packing(iter([*mixed, records([row(2), row(3)], first=200)])))
    assert all(batch.schema.equals(PACKED) for batch in sent)
    (messages,) = [[batch.to_pylist()[0] for batch in sent]]
    blocks = [
        wire.decode(Message(message["value"], {h["key"]: h["value"] for h in message["headers"]}))
        for message in messages
    ]
    assert [(b.source, b.partition, b.predecessor, b.offsets.tolist()) for b in blocks] == [  # type: ignore[union-attr]
        (0, 1, -1, [100]),
        (1, 0, -1, [100]),
        (0, 1, 100, [200, 202]),
    ]
    assert [(m["topic"], m["partition"]) for m in messages] == [("q.shuffled", 1), ("q.shuffled", 1), ("q.shuffled", 1)]
    assert [tuple(m[name] for name in ABOUT) for m in messages] == [
        (0, 1, 100, 1, 0, None),
        (1, 0, 100, 1, 0, None),
        (0, 1, 202, 2, 0, None),
    ]


def test_the_driver_is_told_of_bad_records() -> None:
    (sent,) = Packing(MANIFEST, "q")(iter([records([row(1), b"{", None])]))
    told = {name: sent.to_pylist()[0][name] for name in ABOUT}
    assert (told["records"], told["bad"], told["last"]) == (3, 2, 104)
    assert told["first_bad"].startswith("r, partition 1, offset 102: ")


def test_a_time_too_far_ahead_of_its_arrival_is_dead() -> None:
    raw = [row(1, at="2026-01-01T00:05:00Z"), row(2, at="2026-01-01T00:05:01Z"), row(3)]
    block = packed(raw)
    assert block.marks.tolist() == [Mark.GOOD.value, Mark.DEAD.value, Mark.GOOD.value]
    assert [(d.offset, d.raw, d.place) for d in block.dead] == [(102, raw[1], "r, partition 1, offset 102, column at")]
    assert "maxFutureSkew" in block.dead[0].reason


def test_without_an_arrival_no_time_is_ahead_and_none_is_the_records_own() -> None:
    ahead = Packer(QUERY).pack(R, 7, records([row(1, at="2999-01-01T00:00:00Z")], arrived=-1))
    assert ahead.marks.tolist() == [Mark.GOOD.value]
    own = Packer(QUERY).pack(S, 7, records([b'{"k": 1}'], S, arrived=-1))
    assert [record.reason for record in own.dead] == [NO_TIME]


def test_a_block_goes_over_the_wire_unchanged() -> None:
    wire = Wire(make_plan(QUERY))
    for values in ([row(1), None, row(0), row(4, "ü")], [None], [row(0)]):
        block = packed(values)
        back = wire.decode(wire.encode(block))
        assert isinstance(back, SourceBlock)
        for name in ("offsets", "marks", "times"):
            np.testing.assert_array_equal(getattr(back, name), getattr(block, name))
        assert [values_of(column) for column in back.columns] == [values_of(column) for column in block.columns]
        assert (back.dead, back.predecessor, back.source, back.partition) == (block.dead, 7, 0, 1)


def test_blocks_are_cut_so_that_each_fits_a_message_and_a_tuple_that_fits_none_is_dead() -> None:
    wire, packing = Wire(make_plan(QUERY)), Packing(MANIFEST, "q")
    values: list[bytes | None] = [row(1, "x" * 300_000) for _ in range(40)]
    values[7] = row(1, "y" * (TUPLE_BYTES_MAX + 1))
    sent = [batch.to_pylist()[0] for batch in packing(iter([records(values)]))]
    blocks = [wire.decode(Message(m["value"], {h["key"]: h["value"] for h in m["headers"]})) for m in sent]
    assert max(len(message["value"]) for message in sent) <= RECORD_BYTES_MAX
    assert 2 < len(blocks) < 20
    assert [int(o) for b in blocks for o in b.offsets] == [100 + 2 * n for n in range(40)]  # type: ignore[union-attr]
    ends = [int(block.offsets[-1]) for block in blocks]  # type: ignore[union-attr]
    assert [block.predecessor for block in blocks] == [-1, *ends[:-1]]  # type: ignore[union-attr]
    ((offset, raw, place, reason),) = (
        (d.offset, d.raw, d.place, d.reason)
        for b in blocks
        for d in b.dead  # type: ignore[union-attr]
    )
    assert (offset, place) == (114, "r, partition 1, offset 114")
    assert raw == (values[7] or b"")[:RAW_BYTES_MAX]
    assert reason.startswith("the texts that the query uses of it are more than the 1048576 bytes")


def test_blocks_that_units_may_read_again_are_small_where_rows_are_wide() -> None:
    manifest = MANIFEST.replace("transport: tuples", "transport: semijoin")
    wire = Wire(make_plan(compile_manifest(manifest)))

    def rows_of(text: str) -> list[int]:
        sent = [batch.to_pylist()[0] for batch in Packing(manifest, "q")(iter([records([row(1, text)] * 200)]))]
        blocks = [wire.decode(Message(m["value"], {h["key"]: h["value"] for h in m["headers"]})) for m in sent]
        return [len(block.offsets) for block in blocks]  # type: ignore[union-attr]

    wide = rows_of("x" * 1000)
    assert sum(wide) == 200 and 8 <= max(wide) <= 16
    assert rows_of("x" * 50) == [200]


def test_what_ends_every_query_is_told_at_once_with_a_remedy() -> None:
    spark = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Record at topic r partition 1 offset 0"
        " has timestamp value 1700000000000000000 that overflows when converting to Spark's microsecond-precision"
        " TimestampType."
    )
    said = for_a_person(spark)
    assert said is not None
    assert said.startswith("Record at topic r partition 1 offset 0 has timestamp value 17")
    assert said.endswith(
        "with startingOffsets behind it, and have the topic refuse such records (message.timestamp.after.max.ms)"
    )
    assert (
        for_a_person("packing.OutOfPlaces: r, partition 0, offset 9 is beyond") == "r, partition 0, offset 9 is beyond"
    )
    assert for_a_person("[STREAM_FAILED] org.apache.kafka.common.errors.TimeoutException: no answer") is None


@pytest.mark.parametrize(
    ("java", "sentence"),
    [
        ("topics: [orders]", "read topic orders: grant this principal Describe and Read"),
        ("topics: [orders, offers]", "read topic orders, offers: grant this principal Describe and Read"),
        ("topics: [q.shuffled]", "write to topic q.shuffled: grant this principal Describe and Write"),
        ("group: spark-kafka-source-7", "read as group spark-kafka-source-7: grant this principal Read on the group"),
    ],
)
def test_a_right_that_is_missing_is_told_at_once(java: str, sentence: str) -> None:
    why = f"[STREAM_FAILED] Query [id = 7] terminated with exception: Not authorized to access {java} SQLSTATE: XXKST"
    assert for_a_person(why, {"orders", "offers"}) == f"Kafka does not allow it to {sentence}"
