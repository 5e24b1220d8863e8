"""A record's trace travels in its message's header, and a record without one brings none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.ports.outlets import Outlets
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.routing.protocol import Role
from biclique.tiers.messages import (
    Block,
    DeadRecord,
    LateTuples,
    Partials,
    Producer,
    Record,
    Results,
    SetAside,
)
from tests.unit.tiers.building import plan, rows, source_block
from tests.unit.tiers.on_topics import on_topics

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
JOIN = plan("SELECT r.v FROM r JOIN s ON r.k = s.k")
COUNTING = plan("SELECT r.k, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k")
WIDTH = len(JOIN.stages[0].sides[0].columns)
NUMBERS = np.arange(2, dtype=np.int64)
IDS = np.arange(2, dtype=np.uint64)


@pytest.mark.parametrize(
    ("record", "wire"),
    [
        (source_block([1, 2], fields=2), Wire(JOIN)),
        (Block(0, 0, Role.STORE, Producer("dispatcher", "0"), 5, rows([1], [1], *[[1]] * WIDTH)), Wire(JOIN)),
        (
            Partials(Producer("joiner", "0L0.0"), 5, (Vector(NUMBERS),), ((Vector(NUMBERS),),), NUMBERS),
            Wire(COUNTING),
        ),
    ],
    ids=["source block", "block", "partials"],
)
def test_over_the_wire_and_back(record: Record, wire: Wire) -> None:
    followed = wire.encode(replace(record, trace=TRACE))  # type: ignore[type-var]
    assert followed.headers["traceparent"] == TRACE.encode()
    assert wire.decode(followed).trace == TRACE  # type: ignore[union-attr]
    unfollowed = wire.encode(record)
    assert "traceparent" not in unfollowed.headers
    assert wire.decode(unfollowed).trace == ""  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ["json", "arrow"])
def test_what_leaves_takes_it_along(form: str) -> None:
    outlets = Outlets(compile_manifest(on_topics(r="k BIGINT", s="k BIGINT", out=f"topic: out, format: {form}")))

    def headers(trace: str) -> list[Any]:
        results = Results((Vector(NUMBERS),), IDS, IDS, NUMBERS, trace)
        late = LateTuples(0, 0, NUMBERS, NUMBERS, (Vector(NUMBERS),), 9, trace)
        dead = SetAside(0, 0, (DeadRecord(1, b"?", "r, row 1", "unreadable"),), trace)
        parcels = [*outlets.results(results), *outlets.late(late), *outlets.dead(dead)]
        return [parcel.headers.get("traceparent") for parcel in parcels]

    assert set(headers(TRACE)) == {TRACE.encode()}
    assert set(headers("")) == {None}
