"""RFC 4180 one byte at a time: the slow, obviously right twin of csv_split.py and csv_rows.py."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TwinRecord:
    """`fields`: None for an unquoted empty one; None altogether if the record is malformed."""

    raw: bytes
    fields: tuple[bytes | None, ...] | None


def records_of(data: bytes) -> list[TwinRecord]:
    records = []
    at = 0
    while at < len(data):
        record, at = _record(data, at)
        records.append(record)
    return records


def _record(data: bytes, start: int) -> tuple[TwinRecord, int]:
    fields: list[bytes | None] = []
    at = start
    while True:
        if data[at : at + 1] == b'"':
            text, at = _quoted(data, at + 1)
            if text is None:
                return _malformed(data, start, start)  # never closed
            fields.append(text)
        else:
            begin = at
            while at < len(data) and data[at] not in b'",\r\n':
                at += 1
            fields.append(data[begin:at] or None)
        if at == len(data):
            return TwinRecord(data[start:at], tuple(fields)), at
        if data[at : at + 1] == b"\n":
            return TwinRecord(data[start:at], tuple(fields)), at + 1
        if data[at : at + 2] == b"\r\n":
            return TwinRecord(data[start:at], tuple(fields)), at + 2
        if data[at : at + 1] != b",":
            return _malformed(data, start, at)
        at += 1


def _quoted(data: bytes, at: int) -> tuple[bytes | None, int]:
    text = bytearray()
    while at < len(data):
        if data[at : at + 2] == b'""':
            text += b'"'
            at += 2
        elif data[at : at + 1] == b'"':
            return bytes(text), at + 1
        else:
            text += data[at : at + 1]
            at += 1
    return None, at


def _malformed(data: bytes, start: int, fault: int) -> tuple[TwinRecord, int]:
    end = data.find(b"\n", fault)
    end = len(data) if end < 0 else end + 1
    raw = data[start:end].removesuffix(b"\n").removesuffix(b"\r")
    return TwinRecord(raw, None), end
