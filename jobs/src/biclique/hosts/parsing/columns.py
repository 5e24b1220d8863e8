"""A column of texts → a column of values, as fast as Arrow casts, and exactly what values.py says of each text.

Arrow's cast answers for a whole array or not at all, and accepts a few texts that we do not (`0x1F`, `nan(x)`,
`1e400`). So: cast all; where it fails or the result is suspect, cut in halves until the doubtful piece is small, and
take that one text at a time. A clean column costs one cast; a bad text costs about as much as one column more.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from biclique.core.codec import storage_type
from biclique.hosts.parsing.values import (
    DATE_MAX,
    DATE_MIN,
    INSTANT_MAX,
    INSTANT_MIN,
    Refused,
    Value,
    value_of,
)
from biclique.query.types import Kind, Type

POWERS_OF_TEN = 38  # of a 128-bit decimal
PIECE = 64  # texts that are worth no further cut

Faults = dict[int, str]  # row → reason

_ORDINARY_NAN = pa.array(["nan", "-nan", "+nan"])


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type whose values are those of the SQL type; core/codec.py's `storage_type` is how they are held."""
    match kind.kind:
        case Kind.DECIMAL:
            return pa.decimal128(kind.precision, kind.scale)
        case Kind.DATE:
            return pa.date32()
        case Kind.TIMESTAMP:
            return pa.timestamp("us", "UTC")
        case _:
            return storage_type(kind)


def typed_column(texts: pa.StringArray, kind: Type) -> tuple[pa.Array, Faults]:
    """An array in memory form (`storage_type(kind)`); null where the text is null or at fault."""
    if kind.kind is Kind.STRING:
        return texts, {}
    pieces: list[pa.Array] = []
    faults: Faults = {}
    _convert(texts, kind, 0, pieces, faults)
    return (pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)), faults


def _convert(texts: pa.StringArray, kind: Type, first: int, pieces: list[pa.Array], faults: Faults) -> None:
    cast = _cast(texts, kind)
    if cast is not None:
        pieces.append(cast)
    elif len(texts) > PIECE:
        half = len(texts) // 2
        _convert(texts.slice(0, half), kind, first, pieces, faults)
        _convert(texts.slice(half), kind, first + half, pieces, faults)
    else:
        pieces.append(_one_by_one(texts, kind, first, faults))


def _cast(texts: pa.StringArray, kind: Type) -> pa.Array | None:
    """None: something here needs a closer look."""
    try:
        match kind.kind:
            case Kind.INTEGER:
                return None if _has_x(texts) else pc.cast(texts, arrow_type(kind))
            case Kind.DOUBLE:
                return _ordinary(pc.cast(texts, pa.float64()), texts)
            case Kind.DATE:
                return _within(pc.cast(texts, pa.date32()).view(pa.int32()), DATE_MIN, DATE_MAX)
            case Kind.TIMESTAMP:
                return _instants(texts)
            case Kind.DECIMAL:
                return None if _far_behind_the_point(texts) else unscaled(pc.cast(texts, arrow_type(kind)))
            case _:
                return pc.cast(texts, arrow_type(kind))
    except pa.ArrowInvalid:
        return None


def _far_behind_the_point(texts: pa.StringArray) -> bool:
    """A decimal with more digits behind its point than Arrow has powers of ten, perhaps: it looks for the power all the
    same, and what it finds there makes 0 of 1e-41, or ends the process."""
    longest = pc.max(pc.binary_length(texts)).as_py() or 0
    return longest > POWERS_OF_TEN or _any(pc.match_substring_regex(texts, "[eE]-"))


def _has_x(texts: pa.StringArray) -> bool:
    """A hexadecimal number, perhaps. Looks at all bytes at once: a pattern for each text took as long as the cast."""
    _, ends, data = texts.buffers()
    if data is None:
        return False
    offsets = np.frombuffer(ends, np.int32)
    begin, end = int(offsets[texts.offset]), int(offsets[texts.offset + len(texts)])
    shown = data.slice(begin, end - begin).to_pybytes()
    return b"x" in shown or b"X" in shown


def _any(mask: pa.BooleanArray) -> bool:
    return bool(pc.any(mask).as_py())


def _ordinary(values: pa.DoubleArray, texts: pa.StringArray) -> pa.Array | None:
    finite = pc.is_finite(values)
    if pc.all(finite).as_py() is not False:  # None: all null
        return values
    odd = pc.invert(finite)
    if _any(pc.and_(odd, pc.is_inf(values))):
        return None
    return values if pc.all(pc.is_in(pc.utf8_lower(texts.filter(odd)), _ORDINARY_NAN)).as_py() else None


def _within(values: pa.Array, least: int, greatest: int) -> pa.Array | None:
    bounds = pc.min_max(values).as_py()
    if bounds["min"] is not None and not (least <= bounds["min"] and bounds["max"] <= greatest):
        return None
    return values


def _instants(texts: pa.StringArray) -> pa.Array | None:
    """All with a zone, or all without one: a cast takes either."""
    try:
        instants = pc.cast(texts, pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        instants = pc.cast(texts, pa.timestamp("us"))
    return _within(instants.view(pa.int64()), INSTANT_MIN, INSTANT_MAX)


def _one_by_one(texts: pa.StringArray, kind: Type, first: int, faults: Faults) -> pa.Array:
    values: list[Value | None] = []
    for row, text in enumerate(texts.to_pylist(), first):
        try:
            values.append(None if text is None else value_of(text, kind))
        except Refused as refused:
            faults[row] = str(refused)
            values.append(None)
    return array_of(values, kind)


def array_of(values: list[Value | None], kind: Type) -> pa.Array:
    """Values as values.py gives them, in memory form."""
    return pa.array(values, storage_type(kind))


def unscaled(array: pa.Decimal128Array) -> pa.Int64Array:
    """At most 18 digits: the low half of the 128-bit number is the whole of it."""
    halves = np.frombuffer(array.buffers()[1], np.int64) if len(array) else np.zeros(0, np.int64)
    low = halves[2 * array.offset : 2 * (array.offset + len(array)) : 2].copy()
    return pa.array(low, mask=pc.is_null(array).to_numpy(zero_copy_only=False) if array.null_count else None)
