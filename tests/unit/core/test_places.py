"""A place alone says whether its whole message has been taken, and what comes next."""

from __future__ import annotations

import numpy as np
import pytest

from biclique.core.places import ROWS_PER_MESSAGE, last_place, next_offset, place_text, places_of, row_bits
from biclique.query.compile import compile_manifest

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: placed}
spec:
  sources:
    - {name: many, schema: "k INT", kafka: {bootstrapServers: "b:1", topic: r, format: arrow}}
    - {name: one, schema: "k INT", kafka: {bootstrapServers: "b:1", topic: s, format: csv}}
  sql: "SELECT many.k FROM many JOIN one ON many.k = one.k"
  output: {kafka: {bootstrapServers: "b:1", topic: out, format: json}}
"""
MANY, ONE = compile_manifest(MANIFEST).sources
BITS = row_bits(MANY)


def places(offset: int, count: int) -> list[int]:
    rows = np.arange(count)
    return places_of(np.full(count, offset), rows, np.full(count, count), BITS).tolist()


@pytest.mark.parametrize("count", [1, 2, 3, ROWS_PER_MESSAGE - 1, ROWS_PER_MESSAGE])
@pytest.mark.parametrize("offset", [0, 7, (1 << 32) - 1])
def test_places_grow_and_end_where_the_next_message_begins(offset: int, count: int) -> None:
    found = places(offset, count)
    assert len(set(found)) == count and found == sorted(found)
    assert found[-1] == last_place(offset, BITS) < 1 << 48
    assert [next_offset(place, BITS) for place in found] == [offset] * (count - 1) + [offset + 1]
    assert found[0] > last_place(offset - 1, BITS)


def test_a_message_of_one_record_is_its_offset() -> None:
    offsets = np.array([3, 9])
    assert places_of(offsets, np.zeros(2, np.int64), np.ones(2, np.int64), row_bits(ONE)).tolist() == [3, 9]
    assert (last_place(9, 0), next_offset(9, 0), next_offset(-1, 0)) == (9, 10, 0)


def test_a_person_reads_which_row_it_is() -> None:
    first, second, last = places(5, 3)
    assert place_text(MANY, 2, first) == "many, partition 2, offset 5, row 1"
    assert place_text(MANY, 2, second) == "many, partition 2, offset 5, row 2"
    assert place_text(MANY, 2, last) == "many, partition 2, offset 5, last row"
    assert place_text(ONE, 2, 5) == "one, partition 2, offset 5"
