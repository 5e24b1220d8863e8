"""Records as Kafka messages, and back: one message a record, its kind in a header and its rows as Arrow IPC.

What people and other tools may want without decoding stands in the headers: kind, stage, side, role, sender, epoch,
and `traceparent` where a trace follows the record.
The types of all columns follow from the plan, so both ends run the same query; the format version says whether they
also speak the same language. Results, late and dead records leave the system: see ports/outlets.py.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from biclique.core.codec import decode_batch, decode_rows, encode_batch, encode_rows, from_arrow, to_arrow
from biclique.core.ranks import EpochTotals
from biclique.core.rows import Vector
from biclique.kernels.partials import Shares
from biclique.plan.model import Plan
from biclique.ports.trace_context import HEADER, header_of
from biclique.query.model import Aggregate, GroupKey
from biclique.query.types import Type
from biclique.query.used import used_fields
from biclique.routing.protocol import Role
from biclique.tiers.aggregation import key_types
from biclique.tiers.messages import (
    Block,
    DeadRecord,
    Demand,
    Heartbeat,
    Partials,
    Producer,
    Record,
    Signal,
    SourceBlock,
)
from biclique.tiers.shares_codec import decode_shares, encode_shares

FORMAT = b"1"
KEYS = "keys"  # of a block whose payload stayed behind


class UnknownMessage(Exception):
    """Not written by this version of Biclique for this query."""


class Message(NamedTuple):
    value: bytes
    headers: Mapping[str, bytes]


class Wire:
    """Of one query."""

    def __init__(self, plan: Plan) -> None:
        self.plan, query = plan, plan.query
        self._sides = [
            [(side.types, len(side.relations), side.payload) for side in stage.sides] for stage in plan.stages
        ]
        self._fields = [
            tuple(source.fields[position].type for position in used_fields(query, number))
            for number, source in enumerate(query.sources)
        ]
        self._values = tuple(item.value for item in query.items if isinstance(item.value, Aggregate | GroupKey))
        self._key_types = key_types(query)

    def encode(self, record: Record) -> Message:
        message = self._encoded(record)
        if isinstance(record, SourceBlock | Block | Partials) and record.trace:
            return message._replace(headers={**message.headers, **header_of(record.trace)})
        return message

    def _encoded(self, record: Record) -> Message:
        match record:
            case Block():
                types, _, payload = self._sides[record.stage][record.side]
                at = {"stage": record.stage, "side": record.side, "role": record.role.value, "epoch": record.epoch}
                rows = encode_rows(record.rows, types, () if record.whole else payload)
                if not record.whole:
                    at["transport"] = KEYS
                return _message("block", rows, sender=_sender(record.sender), **at)
            case Signal():
                return _message("signal", _json(_signal_values(record)))
            case Demand():
                demand = (record.sender, record.relation, record.handled, record.wanted, record.blocks)
                return _message("demand", _json(demand))
            case SourceBlock():
                at = {"source": record.source, "partition": record.partition, "predecessor": record.predecessor}
                return _message("source block", encode_source_block(record, self._fields[record.source]), **at)
            case Heartbeat():
                values = (record.source, record.partition, record.position, record.caught_up_ms, record.attempt)
                return _message("heartbeat", _json((*values, record.read_to)))
            case Partials():
                shares = encode_shares(Shares(record.keys, record.states, record.newest), self._values, self._key_types)
                return _message("partials", shares, sender=_sender(record.sender), epoch=record.epoch)
            case _:
                raise AssertionError(f"{type(record).__name__} leaves the system by an outlet")

    def decode(self, message: Message) -> Record:
        """Raises UnknownMessage, and DamagedBlob where the bytes are not what was written."""
        headers, trace = message.headers, message.headers.get(HEADER, b"").decode(errors="replace")
        if headers.get("format") != FORMAT:
            raise UnknownMessage(f"its format is {headers.get('format', b'none')!r}, and {FORMAT!r} is understood")
        match headers.get("kind"):
            case b"block":
                stage, side = int(headers["stage"]), int(headers["side"])
                types, id_parts, _ = self._sides[stage][side]
                rows = decode_rows(message.value, types, id_parts)
                role, epoch = Role(headers["role"].decode()), int(headers["epoch"])
                sender, whole = _sender_of(headers["sender"]), headers.get("transport") != KEYS.encode()
                return Block(stage, side, role, sender, epoch, rows, trace, whole)
            case b"signal":
                return _signal_of(json.loads(message.value))
            case b"demand":
                demanding, *amounts = json.loads(message.value)
                return Demand(Producer(*demanding), *amounts)
            case b"source block":
                source, partition = int(headers["source"]), int(headers["partition"])
                types, predecessor = self._fields[source], int(headers["predecessor"])
                block = decode_source_block(message.value, source, partition, predecessor, types)
                return replace(block, trace=trace) if trace else block
            case b"heartbeat":
                return Heartbeat(*json.loads(message.value))
            case b"partials":
                shares = decode_shares(message.value, self._values, self._key_types)
                sender, epoch = _sender_of(headers["sender"]), int(headers["epoch"])
                return Partials(sender, epoch, shares.keys, shares.states, shares.newest, trace)
            case kind:
                raise UnknownMessage(f"its kind is {kind!r}")


def encode_source_block(block: SourceBlock, types: Sequence[Type]) -> bytes:
    """Three streams, one behind the other, since their lengths differ: every record, the good ones, the dead ones. The
    last two are left out where there is nothing to say."""
    sink = io.BytesIO()
    records = {"offset": pa.array(block.offsets), "mark": pa.array(block.marks), "time": pa.array(block.times)}
    sink.write(encode_batch(pa.RecordBatch.from_pydict(records)))
    arrays = [to_arrow(column, type_) for column, type_ in zip(block.columns, types, strict=True)]
    names = [f"column{i}" for i in range(len(arrays))]
    sink.write(encode_batch(pa.RecordBatch.from_arrays(arrays, names)))
    if block.dead:
        dead = {
            "offset": pa.array([record.offset for record in block.dead], pa.int64()),
            "raw": pa.array([record.raw for record in block.dead], pa.binary()),
            "place": pa.array([record.place for record in block.dead], pa.string()),
            "reason": pa.array([record.reason for record in block.dead], pa.string()),
        }
        sink.write(encode_batch(pa.RecordBatch.from_pydict(dead)))
    return sink.getvalue()


def decode_source_block(
    data: bytes, source: int, partition: int, predecessor: int, types: Sequence[Type]
) -> SourceBlock:
    reader = pa.BufferReader(data)
    records, good = decode_batch(reader), decode_batch(reader)
    dead: tuple[DeadRecord, ...] = ()
    if reader.tell() < len(data):
        batch = decode_batch(reader)
        dead = tuple(DeadRecord(*values) for values in zip(*(c.to_pylist() for c in batch.columns), strict=True))
    columns: tuple[Vector, ...] = tuple(
        from_arrow(array, type_) for array, type_ in zip(good.columns, types, strict=True)
    )
    offsets, marks, times = (np.asarray(column.to_numpy(zero_copy_only=False)) for column in records.columns)
    return SourceBlock(source, partition, predecessor, offsets, marks, times, columns, dead)


def _message(kind: str, value: bytes, **at: Any) -> Message:
    headers = {"format": FORMAT, "kind": kind.encode()}
    return Message(value, headers | {name: str(what).encode() for name, what in at.items()})


def _json(values: Any) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()


def _sender(sender: Producer) -> str:
    return f"{sender.tier} {sender.name}"


def _sender_of(text: bytes) -> Producer:
    tier, _, name = text.decode().partition(" ")
    return Producer(tier, name)


def _signal_values(signal: Signal) -> dict[str, Any]:
    return {
        "sender": list(signal.sender),
        "epoch": signal.epoch,
        "watermark": signal.watermark,
        "idle": signal.idle,
        "version": signal.version,
        "first_epoch": signal.first_epoch,
        "carried": signal.carried,
        "ended": signal.ended,
        "totals": signal.totals,
    }


def _signal_of(values: dict[str, Any]) -> Signal:
    totals = tuple(EpochTotals(epoch, tuple(counts)) for epoch, counts in values["totals"])
    return Signal(**{**values, "sender": Producer(*values["sender"]), "totals": totals})
