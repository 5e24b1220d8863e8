"""Hashes: equal where SQL says equal, pinned, mixed; ids: order of parts counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Vector
from biclique.kernels.hashing import hash_rows, result_ids, value_ids
from biclique.query.types import BIGINT, DOUBLE, INT, STRING, TINYINT
from tests.model.domains import vector


def hashes(*vectors: Vector) -> list[int]:
    return hash_rows(vectors)[0].tolist()


def test_equal_values_hash_alike() -> None:
    nan_with_payload = np.array([0x7FF8000000000123, 0xFFF8000000000000], np.uint64).view(np.float64)
    assert len(set(hashes(Vector(nan_with_payload)) + hashes(Vector(np.array([np.nan]))))) == 1
    assert len(set(hashes(Vector(np.array([0.0, -0.0]))))) == 1
    assert hashes(vector(BIGINT, [-3, 7])) == hashes(vector(INT, [-3, 7])) == hashes(vector(TINYINT, [-3, 7]))


def test_unequal_values_hash_apart() -> None:
    strings = ["", "\0", "\0\0", "a", "a\0", "ab", "ba", "12345678", "1234567", "123456789", "\0" * 8, "\0" * 16]
    assert len(set(hashes(vector(STRING, strings)))) == len(strings)
    a, b = vector(STRING, ["a", "ab", ""]), vector(STRING, ["bc", "c", "abc"])
    assert len(set(hashes(a, b))) == 3
    assert hashes(a, b) != hashes(b, a)


def test_a_sliced_column_hashes_as_its_copy() -> None:
    whole = vector(STRING, ["x", "yy", "zzz", "", "é"])
    assert hashes(whole.slice(1, 4)) == hashes(vector(STRING, ["yy", "zzz", ""]))
    assert hashes(vector(BIGINT, [1, 2, 3]).slice(1, 3)) == hashes(vector(BIGINT, [2, 3]))


def test_a_null_has_a_hash_and_is_marked() -> None:
    found, nulls = hash_rows([vector(BIGINT, [0, None, 1]), vector(STRING, ["", "", None])])
    assert nulls is not None and nulls.tolist() == [False, True, True]
    assert len(set(found.tolist())) == 3
    assert hash_rows([vector(BIGINT, [0])])[1] is None
    two = hash_rows([vector(BIGINT, [None, None])])[0]
    assert two[0] == two[1] != hash_rows([vector(BIGINT, [0])])[0][0]


def test_hashes_never_change() -> None:
    """Routing and stored state depend on these very numbers: a change moves tuples to other units."""
    assert hashes(vector(BIGINT, [0, 1, -1])) == PINNED["numbers"]
    assert hashes(vector(DOUBLE, [0.0, 1.5, float("nan")])) == PINNED["doubles"]
    assert hashes(vector(STRING, ["", "a", "longer than eight bytes"])) == PINNED["strings"]
    assert [part.tolist() for part in result_ids((np.array([1, 2]), np.array([3, 4])))] == PINNED["ids"]


def test_bits_are_mixed() -> None:
    """Units are picked by the remainder of a hash: consecutive numbers must not go to one of them."""
    found = hash_rows([vector(BIGINT, list(range(4096)))])[0]
    for buckets in (2, 3, 7, 64):
        counts = np.bincount((found % np.uint64(buckets)).astype(np.int64), minlength=buckets)
        assert counts.min() > 0.6 * 4096 / buckets
    flips = [bin(int(a ^ b)).count("1") for a, b in zip(found[0::2], found[1::2], strict=True)]
    assert 28 < sum(flips) / len(flips) < 36


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_result_ids_tell_all_parts_and_their_order(parts: int) -> None:
    base = [np.arange(6, dtype=np.int64) + 10 * n for n in range(parts)]
    seen = set()
    for n in range(parts):
        changed = [part + (1 << 40) if m == n else part for m, part in enumerate(base)]
        for ids in (base, changed, changed[::-1] if parts > 1 else changed):
            seen |= {(int(h), int(low)) for h, low in zip(*result_ids(tuple(ids)), strict=True)}
    assert len(seen) == 6 * (1 + parts * (2 if parts > 1 else 1))
    high, low = result_ids(tuple(base))
    assert high.dtype == low.dtype == np.uint64 and not (high == low).any()


def test_value_ids_are_those_of_equal_rows() -> None:
    row = [vector(DOUBLE, [0.0, -0.0, None, float("nan")]), vector(STRING, ["a", "a", "a", "a"])]
    high, low = value_ids(row)
    assert high[0] == high[1] and low[0] == low[1]
    assert len(set(high.tolist())) == len(set(low.tolist())) == 3
    assert value_ids([], count=2)[0].shape == (2,)


def test_strings_without_a_buffer_are_empty() -> None:
    assert hashes(Vector(pa.array([], pa.string()))) == []
    assert hashes(Vector(pa.array(["", ""], pa.string()))) == hashes(Vector(pa.array(["x", ""]).slice(1))) * 2


PINNED = {
    "numbers": [5656644192176463214, 7908562096614167828, 11822132254077620229],
    "doubles": [5656644192176463214, 5167924719338192384, 8717696519812051205],
    "strings": [6344450661636310794, 2610264716735587096, 9818395541501532765],
    "ids": [[10378029244086343736, 16042645063365580597], [15353556976345845538, 10746276183836007906]],
}
