"""Records cut by bytes: the same rows in the same order, each piece within its bytes or a single row, and each as it
travels within what a topic takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Vector, concat_rows, concat_vectors
from biclique.core.stamps import epoch_of
from biclique.plan.table import first_table
from biclique.ports.kafka_log import MESSAGE_BYTES_MAX
from biclique.ports.wire import Wire
from biclique.routing.protocol import Role
from biclique.tiers.cutting import RAW_BYTES_MAX, RECORD_BYTES_MAX, TUPLE_BYTES_MAX, cut_block, cut_partials, kept_raw
from biclique.tiers.dispatcher import Dispatcher, LastRead, dispatcher_producer
from biclique.tiers.effects import Fetched
from biclique.tiers.intake import Intake
from biclique.tiers.messages import Block, Mark, Partials, SourceBlock
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from tests.unit.tiers.building import beat, plan, rows, source_block

SENDER = dispatcher_producer(0)


def texts(*lengths: int) -> Vector:
    return Vector(pa.array(["x" * length for length in lengths], pa.string()), np.ones(len(lengths), np.bool_))


def block(count: int, *columns: Vector) -> Block:
    plain = rows([1 + i // 4 for i in range(count)], range(count))
    return Block(0, 0, Role.STORE, SENDER, 1, replace(plain, columns=columns))


@pytest.mark.parametrize("bytes_max", [1, 100, 333, 1 << 20])
def test_a_block_keeps_its_rows_and_each_piece_begins_with_its_epoch(bytes_max: int) -> None:
    whole = block(20, texts(*range(20)), Vector(np.arange(20)))
    pieces = list(cut_block(whole, bytes_max))
    for piece in pieces:
        assert len(piece.rows) == 1 or piece.rows.nbytes <= bytes_max
        assert piece.epoch == epoch_of(int(piece.rows.stamps[0]))
    joined = concat_rows([piece.rows for piece in pieces])
    assert joined.stamps.tolist() == whole.rows.stamps.tolist()
    assert joined.columns[0].values.to_pylist() == whole.rows.columns[0].values.to_pylist()
    if bytes_max == 1 << 20:
        assert pieces == [whole]


@pytest.mark.parametrize("bytes_max", [1, 100, 1 << 20])
def test_shares_of_groups_are_cut_too(bytes_max: int) -> None:
    whole = Partials(SENDER, 7, (texts(*range(30)),), ((Vector(np.arange(30)),), ()), np.arange(30))
    pieces = list(cut_partials(whole, bytes_max))
    assert len(pieces) == {1: 30, 1 << 20: 1}.get(bytes_max, len(pieces)) > 0
    keys = concat_vectors([piece.keys[0] for piece in pieces])
    assert keys.values.to_pylist() == whole.keys[0].values.to_pylist()
    assert [n for piece in pieces for n in piece.newest.tolist()] == list(range(30))
    assert [n for piece in pieces for n in piece.states[0][0].values.tolist()] == list(range(30))
    assert {piece.epoch for piece in pieces} == {7}


WIDE = "SELECT r.k, r.v, r.name FROM r JOIN s ON r.k = s.k"


def sent(count: int, name_bytes: int) -> tuple[list[Block], Wire]:
    """Blocks of a dispatcher of so many tuples with a text each."""
    made = plan(WIDE)
    given = source_block(range(count), fields=0)
    columns = (Vector(np.arange(count, dtype=np.int32)), Vector(np.arange(count)), texts(*[name_bytes] * count))
    given = replace(given, columns=columns, marks=np.full(count, Mark.GOOD.value, np.int8))
    dispatcher = Dispatcher(made, 0, [SourcePartition(0, 0)], DispatcherProgress())
    turn = dispatcher.turn([(0, given)], 1, first_table(made), 1000, LastRead())
    assert turn is not None
    return [record for _, record in turn.sends if isinstance(record, Block)], Wire(made)


@pytest.mark.parametrize(("count", "name_bytes"), [(20_000, 600), (9, TUPLE_BYTES_MAX)])
def test_what_a_dispatcher_sends_fits_a_message(count: int, name_bytes: int) -> None:
    blocks, wire = sent(count, name_bytes)
    stored = [b for b in blocks if b.role is Role.STORE]
    assert sum(len(b.rows) for b in stored) == count
    assert len(stored) > 2
    assert max(len(wire.encode(b).value) for b in blocks) < MESSAGE_BYTES_MAX - (1 << 16)


def test_five_of_the_largest_tuples_fit_a_message_as_one_partial_result() -> None:
    assert 5 * TUPLE_BYTES_MAX < MESSAGE_BYTES_MAX - (1 << 20)
    assert RECORD_BYTES_MAX + TUPLE_BYTES_MAX < MESSAGE_BYTES_MAX


def test_of_a_dead_record_too_large_the_beginning_is_kept_and_the_reason_says_so() -> None:
    assert kept_raw(b"?", "odd") == (b"?", "odd")
    raw, reason = kept_raw(b"x" * (RAW_BYTES_MAX + 1), "odd")
    assert len(raw) == RAW_BYTES_MAX
    assert reason == "odd (the first 1048576 of its 1048577 bytes are here)"


def test_a_turn_takes_what_fits_and_one_record_at_least() -> None:
    records: list[SourceBlock] = [source_block(range(10)) for _ in range(3)]
    size = records[0].nbytes
    intake = Intake(40)
    intake.take(Fetched(((40, records[0]), (43, records[1]), (44, beat(9, 5)), (50, records[2])), 52, 0, 60))
    assert intake.first(2 * size) == ([(40, records[0]), (43, records[1])], 44)
    intake.handled(2)
    assert not intake.empty
    assert intake.first(0) == ([(44, beat(9, 5))], 50)
    intake.handled(1)
    assert intake.first(1 << 20) == ([(50, records[2])], 52)
    intake.handled(1)
    assert intake.empty
    assert intake.first(1 << 20) == ([], 52)
