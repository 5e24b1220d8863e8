"""Messages of each format to records: what is good, what is bad and why, and that no message spoils its neighbour."""

from __future__ import annotations

import csv
import io
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from biclique.core.places import ROWS_PER_MESSAGE, last_place
from biclique.hosts.parsing.needed import needed_of
from biclique.hosts.parsing.values import Refused, value_of
from biclique.hosts.shuffle.cutting import cut, portions, sizes_as_they_came
from biclique.hosts.shuffle.packing import Packer, parser_of
from biclique.hosts.shuffle.parsed import WHOLE, ParsedMessages
from biclique.plan.make import make_plan
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from biclique.tiers.cutting import RAW_BYTES_MAX, TUPLE_BYTES_MAX
from biclique.tiers.messages import Mark, SourceBlock
from biclique.tiers.progress import SourcePartition

KEY = SourcePartition(0, 1)


def query_of(form: str, schema: str = "k INT, s STRING, at TIMESTAMP") -> Query:
    return compile_manifest(f"""
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: formats}}
spec:
  sources:
    - name: r
      schema: "{schema}"
      kafka: {{bootstrapServers: "b:1", topic: r, format: {form}}}
    - {{name: s, schema: "k INT", kafka: {{bootstrapServers: "b:1", topic: s}}}}
  sql: "SELECT r.s FROM r JOIN s ON r.k = s.k"
  output: {{kafka: {{bootstrapServers: "b:1", topic: out, format: json}}}}
""")


CSV, ARROW = query_of("csv"), query_of("arrow")


def parsed(query: Query, values: list[bytes]) -> ParsedMessages:
    """Wanted are k and s: `at` is used by nothing."""
    return parser_of(query.sources[0])(pa.array(values, pa.binary()), needed_of(query, 0)[0])


def good(found: ParsedMessages) -> list[tuple[int, object, object]]:
    columns = [column.to_pylist() for column in found.columns]
    return list(zip(found.messages.tolist(), *columns, strict=True))


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_fields_are_those_of_the_schema_in_order() -> None:
    values = [b"1,a,", b'2,"b ""x""\nand, on",2026-01-01\n', b"3,,\r\n", b'4,"",']
    assert good(parsed(CSV, values)) == [(0, 1, "a"), (1, 2, 'b "x"\nand, on'), (2, 3, None), (3, 4, "")]


BAD_CSV = {
    b"": "1 field where the schema has 3",
    b"\n": "1 field where the schema has 3",
    b"1,a": "2 fields where the schema has 3",
    b"1,a,,": "4 fields where the schema has 3",
    b"1,a,\n2,b,": "2 records where a message holds one",
    b"1,a,\n\n": "2 records where a message holds one",
    b'1,"a,': "a quote is not closed",
    b'1,a"b,': "a quote in a field",
    b"one,a,": "",
    b"1,\xff,": "not UTF-8",
}


@pytest.mark.parametrize("value", BAD_CSV)
def test_a_bad_csv_message_spoils_no_neighbour(value: bytes) -> None:
    found = parsed(CSV, [b"1,a,", value, b'2,"b",'])
    assert good(found) == [(0, 1, "a"), (2, 2, "b")]
    assert [(bad.message, bad.row, bad.raw) for bad in found.bad] == [(1, WHOLE, None)]
    assert BAD_CSV[value] in found.bad[0].reason


FIELDS = st.text('ab,"\n\r ', max_size=4)


@given(st.lists(st.tuples(FIELDS, st.booleans()), max_size=6), st.integers(0, 5))
def test_csv_alone_and_among_others_is_the_same(texts: list[tuple[str, bool]], position: int) -> None:
    """Written properly or thrown in raw: a message's verdict is its own."""
    values = []
    for number, (text, proper) in enumerate(texts):
        sink = io.StringIO(newline="")
        csv.writer(sink).writerow([number, text, ""])
        values.append(sink.getvalue().encode() if proper else f"{number},{text},".encode())
    together = parsed(CSV, values)
    for number, value in enumerate(values):
        alone = parsed(CSV, [value])
        assert [row[1:] for row in good(alone)] == [row[1:] for row in good(together) if row[0] == number]
        assert [b.reason for b in alone.bad] == [b.reason for b in together.bad if b.message == number]
    for number, (text, proper) in enumerate(texts):
        if proper:
            assert [row[2] for row in good(together) if row[0] == number] == [text or None]


# --- records that ended the process, whoever started it again ---------------------------------------------------------

DECIMAL = "k INT, s DECIMAL(12, 2)"
SMALL = [f"{digit}e-{n}" for n in (1, 2, 3, 36, 37, 38, 39, 41, 60, 77, 100) for digit in (0, 1, 300)]
FAR = [
    *SMALL,
    "0e-100000000",
    "1E-999999999",
    "1e-99999999999",
    *(f"0.{'0' * n}{end}" for n in range(90) for end in "01"),
]
NEAR = ["0", "1", "-1.5", "1e2", "12.34e1", "9999999999.99", "99999999999.99", "1e39", "1e999999999", "00.10", "-0.0"]


@pytest.mark.parametrize("form", ["json", "a JSON string", "an escaped one", "csv"])
def test_a_decimal_is_what_its_digits_say_however_far_behind_the_point(form: str) -> None:
    """Arrow has 38 powers of ten and looks for more: 1e-41 was 0, and 1e-999999999 a segmentation fault."""
    texts = [text for text in (*FAR, *NEAR) if form != "json" or not text.startswith("00")]
    written = {
        "json": '{"k": 1, "s": %s}',
        "a JSON string": '{"k": 1, "s": "%s"}',
        "an escaped one": '{"k": 1, "s": "%s"}',
        "csv": "1,%s",
    }[form]
    shown = [text.replace("e", "\\u0065").replace("-", "\\u002d") if "escaped" in form else text for text in texts]
    query = query_of("csv" if form == "csv" else "json", DECIMAL)
    kind = query.sources[0].fields[1].type

    def read(values: list[bytes]) -> dict[int, object]:
        found = parsed(query, values)
        return {message: s for message, _, s in good(found)}

    wanted: dict[int, object] = {}
    for number, text in enumerate(texts):
        try:
            wanted[number] = value_of(text, kind)
        except Refused:
            continue
    values = [(written % text).encode() for text in shown]
    assert read(values) == wanted
    assert {number: read([value]).get(0) for number, value in enumerate(values) if number in wanted} == wanted
    assert len(wanted) > 90


def test_a_decimal_of_a_scale_beyond_all_powers_of_ten_is_refused() -> None:
    query = query_of("arrow", DECIMAL)
    for scale in (-(1 << 31), -19, 39, 1 << 20):
        far = pa.Array.from_buffers(pa.decimal128(10, scale), 1, [None, pa.py_buffer(bytes(16))])
        (bad,) = parsed(query, [arrow({"k": [1], "s": far})]).bad
        assert bad.reason.startswith("column s is decimal128(10, ")
    near = arrow({"k": [1], "s": pa.array([1500], pa.decimal128(12, -2))})
    assert good(parsed(query, [near])) == [(0, 1, 150_000)]


def test_an_object_nested_too_deep_over_several_lines_is_bad_alone() -> None:
    deep = b'{"k": 1, "s": "x",\n "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    found = parsed(query_of("json"), [b'{"k": 1, "s": "a"}', deep, b'{"k": 2,\n "s": "b"}'])
    assert good(found) == [(0, 1, "a"), (2, 2, "b")]
    assert [(bad.message, bad.reason[:18]) for bad in found.bad] == [(1, "no JSON: maximum r")]


# --- Arrow -----------------------------------------------------------------------------------------------------------


def arrow(*batches: dict[str, object], schema: pa.Schema | None = None) -> bytes:
    made = [pa.RecordBatch.from_pydict(batch, schema) for batch in batches]
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, made[0].schema) as writer:
        for batch in made:
            writer.write_batch(batch)
    return sink.getvalue()


def test_rows_of_all_batches_of_a_message_whatever_the_order_of_its_columns() -> None:
    values = [
        arrow({"s": ["a", None], "k": [1, 2]}, {"s": ["c"], "k": [3]}),
        arrow({"k": pa.array([4], pa.int16()), "s": pa.array(["d"]).dictionary_encode(), "more": [0.5]}),
        arrow({"s": pa.array([], pa.string()), "k": pa.array([], pa.int64())}),
    ]
    found = parsed(ARROW, values)
    assert good(found) == [(0, 1, "a"), (0, 2, None), (0, 3, "c"), (1, 4, "d")]
    assert (found.rows.tolist(), found.counts.tolist(), found.bad) == ([0, 1, 2, 0], [3, 1, 0], ())


def test_a_row_that_does_not_fit_is_bad_alone() -> None:
    found = parsed(ARROW, [arrow({"k": [1, 1 << 40, 3], "s": ["a", "b", "c"]})])
    assert good(found) == [(0, 1, "a"), (0, 3, "c")]
    assert [(b.message, b.row, b.column, b.raw) for b in found.bad] == [(0, 1, "k", b'{"k": 1099511627776, "s": "b"}')]


TORN = arrow({"k": [1], "s": ["a"]})
BAD_ARROW = {
    b"": "no Arrow IPC stream",
    b'{"k": 1}': "no Arrow IPC stream",
    TORN[: len(TORN) // 2]: "no Arrow IPC stream",
    arrow({"k": [1]}): "no column s (it has k)",
    arrow({"k": ["1"], "s": ["a"]}): "column k is string in the message and INT in the schema",
    arrow({"k": [1] * (ROWS_PER_MESSAGE + 1), "s": ["a"] * (ROWS_PER_MESSAGE + 1)}): "65,537 rows",
}


@pytest.mark.parametrize("reason", BAD_ARROW.items(), ids=lambda item: item[1])
def test_a_bad_arrow_message_is_dead_as_a_whole_and_spoils_no_neighbour(reason: tuple[bytes, str]) -> None:
    before, after = arrow({"k": [1], "s": ["a"]}), arrow({"k": [2, 3], "s": ["b", "c"]})
    found = parsed(ARROW, [before, reason[0], after])
    assert good(found) == [(0, 1, "a"), (2, 2, "b"), (2, 3, "c")]
    assert [(bad.message, bad.row, bad.raw) for bad in found.bad] == [(1, WHOLE, None)]
    assert reason[1] in found.bad[0].reason


def test_bytes_that_lie_are_refused_and_not_looked_at() -> None:
    """Every byte of a message may be wrong: a verdict or rows, and the process lives."""
    rng, whole = random.Random(5), arrow({"k": [1, 2, 3], "s": ["a", None, "ccc"]})
    verdicts = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        found = parsed(ARROW, [bytes(data)])
        verdicts += len(found.bad)
        assert all(isinstance(text, str | None) for text in found.columns[1].to_pylist())
    assert verdicts > 50


# --- places and cuts -------------------------------------------------------------------------------------------------


def records(values: list[bytes], first: int = 10) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(range(first, first + count), pa.int64()),
            "time": pa.array([5] * count, pa.int64()),
            "value": pa.array(values, pa.binary()),
        }
    )


def test_each_row_has_its_place_and_the_last_one_ends_its_message() -> None:
    values = [arrow({"k": [1, 1 << 40, 3], "s": ["a", "b", "c"]}), b"no", arrow({"k": [1 << 40], "s": ["z"]})]
    block = Packer(ARROW).pack(KEY, -1, records(values))
    ends = [last_place(offset, 16) for offset in (10, 11, 12)]
    assert block.offsets.tolist() == [10 << 16, (10 << 16) + 1, *ends]
    assert block.marks.tolist() == [mark.value for mark in (Mark.GOOD, Mark.DEAD, Mark.GOOD, Mark.DEAD, Mark.DEAD)]
    assert [(record.offset, record.place, record.raw) for record in block.dead] == [
        ((10 << 16) + 1, "r, partition 1, offset 10, row 2, column k", b'{"k": 1099511627776, "s": "b"}'),
        (ends[1], "r, partition 1, offset 11", b"no"),
        (ends[2], "r, partition 1, offset 12, row 1, column k", b'{"k": 1099511627776, "s": "z"}'),
    ]


def put_together(blocks: list[SourceBlock]) -> tuple[list[object], ...]:
    return (
        np.concatenate([block.offsets for block in blocks]).tolist(),
        np.concatenate([block.marks for block in blocks]).tolist(),
        [text for block in blocks for text in block.columns[1].values.to_pylist()],  # type: ignore[union-attr]
        [record for block in blocks for record in block.dead],
    )


@pytest.mark.parametrize("bounds", [(3, 1 << 20), (1000, 2000), (1, 1 << 20)])
def test_a_block_is_cut_to_its_bounds_and_nothing_changes(bounds: tuple[int, int]) -> None:
    rng = random.Random(3)
    values = [b'{"k": %d, "s": "%s"}' % (n, b"x" * rng.randrange(200)) if n % 5 else b"bad" for n in range(40)]
    whole = Packer(query_of("json")).pack(KEY, 4, records(values))
    wire = Wire(make_plan(query_of("json")))
    found = list(cut(whole, wire.encode, *bounds))
    assert len(found) > 1
    blocks = [block for block, _ in found]
    assert put_together(blocks) == put_together([whole])
    assert [block.predecessor for block in blocks] == [4, *(int(block.offsets[-1]) for block in blocks[:-1])]
    for block, message in found:
        assert len(block.offsets) <= bounds[0] and len(message.value) <= bounds[1]


def test_a_row_of_an_arrow_message_with_too_long_a_text_is_dead_alone() -> None:
    values = [arrow({"k": [1, 2, 3], "s": ["a", "x" * (TUPLE_BYTES_MAX + 1), "c"]})]
    block = Packer(ARROW).pack(KEY, -1, records(values))
    assert block.marks.tolist() == [Mark.GOOD.value, Mark.DEAD.value, Mark.GOOD.value]
    ((place, raw, text),) = ((record.offset, record.raw, record.place) for record in block.dead)
    assert (place, text) == ((10 << 16) + 1, "r, partition 1, offset 10, row 2")
    assert raw.startswith(b'{"k": 2, "s": "xxx') and len(raw) <= RAW_BYTES_MAX


def test_portions_have_no_more_bytes_than_they_may_or_one_record() -> None:
    batch = records([b"x" * size for size in (3, 4, 20, 1, 1, 9)])
    sizes = sizes_as_they_came(batch.column("value"))
    assert [len(portion) for portion in portions(batch, sizes, 10)] == [2, 1, 2, 1]
    assert pa.Table.from_batches(list(portions(batch, sizes, 10))).equals(pa.Table.from_batches([batch]))
