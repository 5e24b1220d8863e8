"""How the records of a source enter the join: as tuples of each relation made of it, at that relation's stage and
side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute

from biclique.core.codec import blank
from biclique.core.payload_places import PayloadPlaces, in_the_row
from biclique.core.rows import Indexes, Rows, Vector
from biclique.kernels.evaluate import Predicate, compile_expression, compile_predicate
from biclique.kernels.hashing import Hashes, hash_rows
from biclique.kernels.text_growth import pace_of
from biclique.plan.model import Plan
from biclique.query.expression import Column
from biclique.query.model import Query
from biclique.query.used import used_fields
from biclique.routing.choose import router
from biclique.routing.protocol import Share
from biclique.routing.table import RoutingTable
from biclique.tiers.failing_keys import FailingKeys


def source_positions(query: Query, relation: int) -> dict[Column, int]:
    """Where a relation's columns are in its source's blocks."""
    source = query.relations[relation].source
    fields = query.sources[source].fields
    return {Column(relation, field, fields[field].type): i for i, field in enumerate(used_fields(query, source))}


def relation_filter(query: Query, relation: int) -> Predicate | None:
    conjuncts = query.filters[relation]
    return compile_predicate(conjuncts, source_positions(query, relation)) if conjuncts else None


class Routing:
    """Rows of one side of one stage → shares for its units."""

    def __init__(self, plan: Plan, stage: int, side: int) -> None:
        self._router = router(plan.stages[stage].strategy, stage)
        self.stage, self.side = stage, side
        entered = plan.stages[stage].sides[side]
        positions = {column: i for i, column in enumerate(entered.columns)}
        self._hash_of = tuple(compile_expression(expression, positions) for expression in entered.route)
        self._pace = pace_of(entered.route, positions)

    def shares(self, rows: Rows, table: RoutingTable) -> tuple[Share, ...]:
        hashes = None
        if self._hash_of:
            hashes = self._hashes(rows)
        # A partial result is placed by the id of its first part: any part would do, as long as a replay repeats it.
        return self._router(table, self.side, rows.ids[0], hashes)

    def _hashes(self, rows: Rows) -> Hashes:
        stretches = [(0, len(rows))] if self._pace is None else self._pace.stretches(rows.columns, len(rows))
        parts: list[Hashes] = []
        for start, stop in stretches:
            columns = [column.slice(start, stop) for column in rows.columns]
            parts.append(hash_rows([program.run(columns, stop - start) for program in self._hash_of])[0])
        return parts[0] if len(parts) == 1 else np.concatenate(parts)


class Entry:
    """One relation: which records of its source pass, which columns they keep, and where they go."""

    def __init__(self, plan: Plan, relation: int) -> None:
        query = plan.query
        self.relation = relation
        stage, side = plan.entry(relation)
        self.routing = Routing(plan, stage, side)
        positions = source_positions(query, relation)
        self._failing_keys = FailingKeys(plan.stages[stage].sides[side])
        self._columns = tuple(positions[column] for column in plan.stages[stage].sides[side].columns)
        self._types = plan.stages[stage].sides[side].types
        self.payload = plan.stages[stage].sides[side].payload
        # The shuffler has filtered already where one relation is all that the source is read for.
        alone = sum(other.source == query.relations[relation].source for other in query.relations) == 1
        self._filter = None if alone else relation_filter(query, relation)

    def kept(self, columns: Sequence[Vector], count: int) -> tuple[Indexes | None, int]:
        """The rows that pass this relation's filter (None: all), and how many of the others it failed on."""
        if self._filter is None:
            return None, 0
        mask, failed = self._filter.run(columns, count)
        return (None if mask.all() else np.flatnonzero(mask)), failed

    def columns(self, columns: Sequence[Vector], kept: Indexes | None) -> tuple[Vector, ...]:
        chosen = (columns[i] for i in self._columns)
        return tuple(chosen) if kept is None else tuple(column.take(kept) for column in chosen)

    def located(
        self, columns: Sequence[Vector], kept: Indexes | None, places: PayloadPlaces, whole: bool
    ) -> tuple[Vector, ...]:
        """The same where there is a payload; `places`: of all rows (core/payload_places.py)."""
        count = len(places) if kept is None else len(kept)
        places = places if kept is None else places[kept]
        if whole:
            return (*self.columns(columns, kept), Vector(in_the_row(places)), Vector(np.zeros(count, np.int32)))
        found: list[Vector] = []
        left_behind = np.zeros(len(columns[0]), np.int32)
        for at, i in enumerate(self._columns):
            if at not in self.payload:
                found.append(columns[i] if kept is None else columns[i].take(kept))
                continue
            found.append(blank(self._types[at], count))
            if isinstance(columns[i].values, pa.Array):
                left_behind += np.asarray(pa.compute.binary_length(columns[i].values))
        return (*found, Vector(places), Vector(left_behind if kept is None else left_behind[kept]))

    def failed_keys(self, entered: Sequence[Vector], count: int) -> int:
        """How many of the rows match nothing because a key fails; `entered`: their `columns`."""
        return self._failing_keys.count(entered, count)


def entries_of_source(plan: Plan, source: int) -> tuple[Entry, ...]:
    return tuple(Entry(plan, n) for n, relation in enumerate(plan.query.relations) if relation.source == source)
