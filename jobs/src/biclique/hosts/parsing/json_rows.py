"""JSON, one object a line → blocks of typed rows. A missing key is null, as null is; other keys are not looked at.

| type                | JSON                                                                     |
|---------------------|--------------------------------------------------------------------------|
| INTEGER             | a number, as values.py reads its text (`1.0` is none)                    |
| DOUBLE              | a number, or one of the strings "NaN", "Infinity", "-Infinity"           |
| DECIMAL             | a number, or a string of one                                             |
| BOOLEAN             | true, false                                                              |
| STRING              | a string                                                                 |
| DATE, TIMESTAMP     | a string, as values.py reads it                                          |

A wanted key that stands twice makes a record malformed; so do NaN and other words that JSON does not have, and an
empty line.

Arrow parses all lines at once or none, so doubtful pieces are cut in halves, as in columns.py. It is only shown lines
that begin with { and end with }, so that an object is never more or less than a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
from numpy.typing import NDArray

from biclique.core.codec import storage_type
from biclique.hosts.parsing.columns import PIECE, POWERS_OF_TEN, Faults, array_of, arrow_type, typed_column, unscaled
from biclique.hosts.parsing.rows import BadRow, ParsedBlock, Verdict, Wanted, absent_values, first_faults, without
from biclique.hosts.parsing.splitting import BLOCK_MAX, BOM, BlockMax, TextBlock, split_lines, text_blocks
from biclique.hosts.parsing.texts import readable, undecodable
from biclique.hosts.parsing.values import Refused, Value, quoted, value_of
from biclique.query.types import Kind, Type

_AS_TEXT = (Kind.DATE, Kind.TIMESTAMP)
_SPECIAL_DOUBLES = {"NaN", "Infinity", "-Infinity"}
NESTING_MAX = 64
# A negative exponent, a long run of digits, or a character of one that is written as an escape.
_FAR = rf"[0-9.][eE]-|[0-9]{{{POWERS_OF_TEN - 2}}}|\\u00(?:2[dDeE]|3[0-9]|[46]5)"


def json_blocks(
    stream: BinaryIO, wanted: Wanted, first_row: int, resume: int, most: BlockMax = BLOCK_MAX
) -> Iterator[ParsedBlock]:
    begin = len(BOM) if stream.read(len(BOM)) == BOM else 0
    for block in text_blocks(stream, split_lines, first_row, max(resume, begin), most):
        yield parse_json_block(block, wanted)


def parse_json_block(block: TextBlock, wanted: Wanted) -> ParsedBlock:
    bad = undecodable(block)
    data, kept = readable(block, bad)
    reader = _Reader(wanted, data, len(kept))
    reader.read(0, len(kept))
    columns = reader.columns()
    verdicts = absent_values(wanted, columns) | first_faults(wanted, reader.faults) | reader.malformed
    good, columns_of_good = without(columns, len(kept), verdicts)
    bad |= {int(kept[row]): verdict for row, verdict in verdicts.items()}
    return ParsedBlock(
        block.first_row,
        len(block),
        kept[good] + block.first_row,
        columns_of_good,
        tuple(
            BadRow(block.first_row + record, bad[record].column, bad[record].reason, block.raw(record))
            for record in sorted(bad)
        ),
        block.next_byte,
    )


class _Reader:
    """Lines in; for each wanted field the pieces of its column, in order."""

    def __init__(self, wanted: Wanted, data: bytes, count: int) -> None:
        self._wanted, self._data = wanted, data
        self._pieces: list[list[pa.Array]] = [[] for _ in wanted.fields]
        self.faults: list[Faults] = [{} for _ in wanted.fields]
        self.malformed: dict[int, Verdict] = {}
        self._ends = split_lines(data, True).ends
        assert len(self._ends) == count
        self._starts = np.concatenate([np.zeros(1, np.int64), self._ends[:-1]])[:count]
        self._plain = _plain_lines(data, self._starts, self._ends)
        if any(field.type.kind is Kind.DECIMAL for field in wanted.fields):
            self._plain &= ~_with_far_decimals(data, self._ends)
        kinds = [pa.string() if f.type.kind in _AS_TEXT else arrow_type(f.type) for f in wanted.fields]
        names = [f.name for f in wanted.fields]
        self._options = pa_json.ParseOptions(
            explicit_schema=pa.schema(list(zip(names, kinds, strict=True))), unexpected_field_behavior="ignore"
        )

    def columns(self) -> list[pa.Array]:
        return [
            pa.concat_arrays(pieces) if pieces else pa.array([], storage_type(field.type))
            for field, pieces in zip(self._wanted.fields, self._pieces, strict=True)
        ]

    def read(self, start: int, stop: int) -> None:
        if start == stop:
            return
        table = self._at_once(start, stop) if self._plain[start:stop].all() else None
        if table is not None:
            self._take(table, start)
        elif stop - start > PIECE:
            middle = (start + stop) // 2
            self.read(start, middle)
            self.read(middle, stop)
        else:
            self._one_by_one(start, stop)

    def _at_once(self, start: int, stop: int) -> pa.Table | None:
        data = self._data[int(self._starts[start]) : int(self._ends[stop - 1])]
        try:
            table = pa_json.read_json(
                pa.BufferReader(data),
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=self._options,
            )
        except pa.ArrowInvalid:
            return None
        return table if len(table) == stop - start else None

    def _take(self, table: pa.Table, first: int) -> None:
        for position, field in enumerate(self._wanted.fields):
            array = table[field.name].combine_chunks()
            array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
            if field.type.kind in _AS_TEXT:
                array, faults = typed_column(array, field.type)
                self.faults[position] |= {first + row: reason for row, reason in faults.items()}
            elif field.type.kind is Kind.DECIMAL:
                array = unscaled(array)
            self._pieces[position].append(array)

    def _one_by_one(self, start: int, stop: int) -> None:
        values: list[list[Value | None]] = [[] for _ in self._wanted.fields]
        for line in range(start, stop):
            text = (
                self._data[int(self._starts[line]) : int(self._ends[line])]
                .decode()
                .removesuffix("\n")
                .removesuffix("\r")
            )
            try:
                object_ = _object(text)
            except Refused as refused:
                self.malformed[line] = Verdict("", str(refused))
                object_ = {}
            for position, field in enumerate(self._wanted.fields):
                try:
                    values[position].append(_value(object_.get(field.name), field.type))
                except Refused as refused:
                    self.faults[position][line] = str(refused)
                    values[position].append(None)
        for position, field in enumerate(self._wanted.fields):
            self._pieces[position].append(array_of(values[position], field.type))


def _plain_lines(data: bytes, starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Lines that Arrow may be shown: an object from end to end, no words that only Arrow has, bounded nesting."""
    bytes_ = np.frombuffer(data, np.uint8)
    if not len(starts):
        return np.zeros(0, np.bool_)
    if b"NaN" in data or b"Inf" in data or data.count(b"[") + data.count(b"{") > NESTING_MAX * len(starts):
        return np.fromiter(
            (_is_plain(data[start:end]) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)),
            np.bool_,
            len(starts),
        )
    last = ends - 1
    last = np.where(bytes_[last] == ord("\n"), last - 1, last)
    last = np.where((last > starts) & (bytes_[last] == ord("\r")), last - 1, last)
    return (last > starts) & (bytes_[starts] == ord("{")) & (bytes_[last] == ord("}"))


def _with_far_decimals(data: bytes, ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Lines in which a decimal may have more digits behind its point than Arrow has powers of ten (columns.py)."""
    offsets = pa.array(np.concatenate([np.zeros(1, np.int64), ends]), pa.int64())
    lines = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(ends), [None, offsets.buffers()[1], pa.py_buffer(data)]
    )
    return np.asarray(pc.match_substring_regex(lines, _FAR).to_numpy(zero_copy_only=False), np.bool_)


def _is_plain(line: bytes) -> bool:
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    words = b"NaN" in line or b"Inf" in line
    return line[:1] == b"{" and line[-1:] == b"}" and not words and line.count(b"[") + line.count(b"{") <= NESTING_MAX


class _Number(str):
    """The text of a JSON number."""


def _object(text: str) -> dict[str, Any]:
    if not text.strip():
        raise Refused("an empty line")
    try:
        # Pairs, not objects: a key that stands twice must be seen. Only the outermost object matters.
        pairs = json.loads(
            text, parse_int=_Number, parse_float=_Number, parse_constant=_no_constant, object_pairs_hook=_Pairs
        )
    except (ValueError, RecursionError) as error:
        raise Refused(f"no JSON: {str(error).splitlines()[0]}") from None
    if not isinstance(pairs, _Pairs):
        raise Refused("JSON, but no object")
    keys: dict[str, Any] = {}
    for key, value in pairs:
        keys[key] = _TWICE if key in keys else value
    return keys


class _Pairs(list):
    """The members of an object, as written."""


class _Twice:
    """In place of the value of a key that stands twice."""


_TWICE = _Twice()


def _no_constant(word: str) -> None:
    raise ValueError(f"{word} is not a JSON value")


def _value(value: Any, kind: Type) -> Value | None:
    if value is None:
        return None
    if value is _TWICE:
        raise Refused("the key stands twice")
    text = str(value)
    if isinstance(value, bool):
        fits = kind.kind is Kind.BOOLEAN
    elif isinstance(value, _Number):
        fits = kind.kind in (Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL)
    elif isinstance(value, str):
        fits = kind.kind in (Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.DECIMAL) or (
            kind.kind is Kind.DOUBLE and value in _SPECIAL_DOUBLES
        )
    else:
        fits, text = False, "an object" if isinstance(value, _Pairs) else "a list"
    if not fits:
        raise Refused(f"{quoted(text) if isinstance(value, str) else text} where a {kind} is expected")
    if kind.kind is Kind.STRING and not _encodable(text):
        raise Refused("half of a surrogate pair")
    return value_of(text, kind)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
