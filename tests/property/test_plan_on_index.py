"""Plans on the real indexes: keys computed, stored and probed as a joiner does it, then the residual; compared with the
predicates as written, row by row in plain Python. What the planner thinks a key means and what the index makes of it
meet here."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from biclique.core.rows import Rows
from biclique.core.stamps import tuple_ids
from biclique.index.access import ProbeKeysOf, StoredKeysOf
from biclique.index.build import new_store
from biclique.index.protocol import ProbeOrder, StoreLayout
from biclique.plan.model import LEFT, RIGHT, Plan
from tests.model.domains import vector
from tests.model.evaluate import holds
from tests.property.test_plan import case
from tests.unit.plan.judge import Row, merged


def rows_of(plan: Plan, side: int, rows: list[Row]) -> Rows:
    columns = plan.stages[0].sides[side].columns
    count = len(rows)
    times = np.zeros(count, np.int64)
    return Rows(
        np.arange(count, dtype=np.uint64) + np.uint64(side * count),
        (tuple_ids(side, 0, np.arange(count, dtype=np.int64)),),
        times,
        times,
        tuple(vector(c.type, [row[c] for row in rows]) for c in columns),
    )


def found(plan: Plan, stored: int, rows: list[list[Row]]) -> set[tuple[int, int]]:
    """(left row, right row) of all that the index of one side hands on, probed by all rows of the other."""
    sides = plan.stages[0].sides
    access = sides[stored].access
    kept, probing = (rows_of(plan, side, rows[side]) for side in (stored, 1 - stored))
    positions = [{c: n for n, c in enumerate(side.columns)} for side in sides]
    keys = StoredKeysOf(access.equal, access.first, access.second, positions[stored])(kept.columns, len(kept))
    asked = ProbeKeysOf(access.equal, access.first, access.second, positions[1 - stored])(probing.columns, len(probing))
    store = new_store(StoreLayout(access.kind, tuple(c.type for c in sides[stored].columns)))
    store.append(kept, keys)
    later = np.full(len(probing), np.uint64(1 << 40), np.uint64)
    order = ProbeOrder(later, probing.newest, probing.oldest, store.end, None, None)
    pairs = [
        (int(s), int(p)) for chunk in store.probe(asked, order) for s, p in zip(chunk.stored, chunk.probe, strict=True)
    ]
    assert len(set(pairs)) == len(pairs)
    return {pair if stored == LEFT else (pair[1], pair[0]) for pair in pairs}


@given(st.integers(0, 2**32))
@settings(max_examples=250, deadline=None)
def test_an_index_and_the_residual_find_what_the_predicates_ask_for(seed: int) -> None:
    plan, rows = case(seed, relations=2)
    pairs = {(i, j): merged((rows[0][i], rows[1][j])) for i in range(len(rows[0])) for j in range(len(rows[1]))}
    expected = {pair for pair, row in pairs.items() if all(holds(p, row) for p in plan.query.predicates)}
    for stored in (LEFT, RIGHT):
        residual = plan.stages[0].sides[stored].access.residual
        joined = {pair for pair in found(plan, stored, rows) if all(holds(p, pairs[pair]) for p in residual)}
        assert joined == expected, (stored, joined ^ expected)
