"""A small Arrow message that is a large one in memory: refused by what it says of itself, before anything is unpacked
or copied, and portions are of what messages take."""

from __future__ import annotations

import io
import random
import struct

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.places import ROWS_PER_MESSAGE
from biclique.hosts.shuffle.arrow_messages import UNPACKED_MAX
from biclique.hosts.shuffle.arrow_sizes import text_bytes, unpacked_bytes
from biclique.hosts.shuffle.cutting import PORTION_BYTES
from biclique.hosts.shuffle.packing import Packer
from biclique.tiers.messages import Mark
from tests.unit.hosts.test_message_formats import ARROW, KEY, good, parsed, records

KB = 1 << 10
GB = 1 << 30
SMALL = 1 << 19


def packed(compression: str | None, *batches: dict[str, object]) -> bytes:
    made = [pa.RecordBatch.from_pydict(batch) for batch in batches]
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, made[0].schema, options=options) as writer:
        for batch in made:
            writer.write_batch(batch)
    return sink.getvalue()


def shared(rows: int, text: int, kind: pa.DataType | None = None) -> dict[str, object]:
    """One text, to which each of the rows refers."""
    if kind is None:
        texts: pa.Array = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int8()), ["x" * text])
    else:
        view = struct.pack("<i4sii", text, b"xxxx", 0, 0)
        texts = pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(view * rows), pa.py_buffer(b"x" * text)])
    return {"k": pa.array([1] * rows, pa.int8()), "s": texts}


def saying(message: bytes, of: int, length: int) -> bytes:
    """A compressed buffer begins with what it unpacks to: the last one, which unpacks to `of` bytes, says otherwise."""
    before, found, behind = message.rpartition(struct.pack("<q", of))
    assert found
    return before + struct.pack("<q", length) + behind


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_what_a_stream_unpacks_to_is_known_before(compression: str | None) -> None:
    batch = {"k": list(range(1000)), "s": ["x" * 500] * 1000}
    found = unpacked_bytes(pa.py_buffer(packed(compression, batch, batch)))
    wanted = 2 * pa.RecordBatch.from_pydict(batch).nbytes
    assert wanted <= found <= wanted + 64, "up to what pads a buffer"
    assert found == unpacked_bytes(pa.py_buffer(packed(None, batch, batch))) or compression is not None


@pytest.mark.parametrize(
    "texts",
    [
        pa.array(["not this", "ab", None, "c" * 40, "nor this"], kind)
        for kind in (pa.string(), pa.large_string(), pa.string_view())
    ]
    + [pa.array(["not this", "ab", None, "c" * 40, "nor this"]).dictionary_encode()],
    ids=lambda texts: str(texts.type),
)
def test_texts_are_measured_as_rows_of_their_own(texts: pa.Array) -> None:
    assert text_bytes(texts[1:4]) == 42
    assert text_bytes(texts[:0]) == 0
    assert text_bytes(pa.array([1, None]).dictionary_encode()) == text_bytes(pa.array([1, None])) == 0


TEXT = "x" * (2 * KB)
BOMBS = {
    "compressed": packed("zstd", {"k": [1] * 40_000, "s": [TEXT] * 40_000}),
    "in many batches": packed("lz4", *[{"k": [1] * 2_000, "s": [TEXT] * 2_000}] * 20),
    "compressed, of a size that nobody has": saying(packed("zstd", {"k": [1], "s": ["x" * 4_096]}), 4_096, 1 << 60),
    "a dictionary": packed(None, shared(ROWS_PER_MESSAGE, 2 * KB)),
    "a view": packed("zstd", shared(ROWS_PER_MESSAGE, 2 * KB, pa.string_view())),
}


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_message_that_unpacks_to_too_much_is_dead_as_it_came_and_spoils_no_neighbour(bomb: bytes) -> None:
    assert len(bomb) < SMALL
    beside = packed(None, {"k": [2], "s": ["b"]})
    before = pa.total_allocated_bytes()
    block = Packer(ARROW).pack(KEY, -1, records([beside, bomb, beside]))
    assert pa.total_allocated_bytes() < before + UNPACKED_MAX
    assert block.marks.tolist() == [Mark.GOOD.value, Mark.DEAD.value, Mark.GOOD.value]
    (dead,) = block.dead
    assert dead.raw == bomb
    assert dead.reason.endswith(f"once it is unpacked, and a message has at most {UNPACKED_MAX:,}: send smaller ones")


def test_what_comes_as_large_as_it_is_stays_good_whatever_its_size() -> None:
    large = packed(None, {"k": [1] * 70, "s": ["x" * (1 << 20)] * 70})
    assert len(large) > UNPACKED_MAX
    found = parsed(ARROW, [large])
    assert len(good(found)) == 70 and not found.bad


@pytest.mark.parametrize("referring", [False, True])
def test_portions_are_of_what_messages_take_and_not_of_what_they_are(referring: bool) -> None:
    rows = shared(1_000, KB) if referring else {"k": [1] * 1_000, "s": ["x" * KB] * 1_000}
    message = packed(None if referring else "zstd", rows)
    assert len(message) < 10 * KB
    found = list(Packer(ARROW).portions(0, records([message] * 20)))
    assert sum(len(portion) for portion in found) == 20
    assert max(len(portion) for portion in found) * 1_000 * KB <= PORTION_BYTES
    assert len(list(Packer(ARROW).portions(0, records([b"none"] * 20)))) == 1


def test_bytes_that_lie_about_sizes_are_refused_and_not_believed() -> None:
    rng, verdicts = random.Random(6), 0
    wholes = packed("lz4", {"k": [1, 2, 3] * 50, "s": ["a", None, "ccc"] * 50}), packed("zstd", shared(3, 40))
    for number in range(300):
        data = bytearray(wholes[number % 2])
        for _ in range(rng.randint(1, 3)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        assert np.all([len(portion) == 1 for portion in Packer(ARROW).portions(0, records([bytes(data)]))])
        verdicts += len(parsed(ARROW, [bytes(data)]).bad)
    assert verdicts > 20
