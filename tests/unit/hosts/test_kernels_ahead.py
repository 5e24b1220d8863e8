"""What is compiled ahead: the list of queries has one for each index, type and way of counting, and all of them run."""

from __future__ import annotations

from biclique.hosts.kernels_ahead import BLOCKS, COLUMNS, ROWS, manifest, many_numbers, queries, queries_of_many_rows
from biclique.index.protocol import IndexKind
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.query.compile import compile_manifest
from biclique.query.types import Kind


def plans() -> list[Plan]:
    return [make_plan(compile_manifest(manifest(sql))) for sql in queries()]


def test_there_is_a_query_for_each_index_and_type() -> None:
    made = plans()
    assert {side.access.kind for plan in made for stage in plan.stages for side in stage.sides} == set(IndexKind)
    types = {field.type.kind for source in made[0].query.sources for field in source.fields}
    assert types == set(Kind) - {Kind.INTERVAL}  # which no column has
    assert len(COLUMNS) == len(made[0].query.sources[0].fields)


def test_some_merge_some_chain_and_some_have_no_window() -> None:
    made = plans()
    assert {bool(plan.mergers) for plan in made} == {True, False}
    assert {len(plan.query.relations) for plan in made} == {2, 3}
    assert any("WITHIN" not in sql for sql in queries())


def test_many_rows_are_each_there_once() -> None:
    numbers = many_numbers()
    assert sorted(number for block in numbers for number in block.tolist()) == list(range(ROWS * BLOCKS))
    assert all(make_plan(compile_manifest(manifest(sql))) for sql in queries_of_many_rows())
