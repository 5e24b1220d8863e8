"""Batches: whatever the bound, together they are the step's matches in canonical order; behind any cursor comes the
rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from biclique.core.rows import Rows, Vector
from biclique.query.types import Kind, Type
from biclique.tiers.emission import ResultEmission
from biclique.tiers.found import Found, Least, pair_size
from biclique.tiers.matching import Batch, BatchMax, Probing, batches
from biclique.tiers.messages import Results
from biclique.tiers.payloads import Payloads
from biclique.tiers.progress import Cursor
from biclique.tiers.state import Adoption, SideState
from tests.unit.tiers.building import plan, rows

SQLS = (
    "SELECT r.k, s.v FROM r JOIN s ON r.k = s.k",
    "SELECT r.k, s.v FROM r JOIN s ON r.k >= s.k AND r.v % 2 = 0",
    "SELECT r.k, s.v FROM r JOIN s ON r.k < s.k AND r.v > s.v",
)
Match = tuple[int, tuple[int, ...], int, tuple[int, ...]]


def keyed(batch: Batch, probes: dict[int, Rows]) -> list[Match]:
    found: list[Match] = []
    for side, chunks in batch.found.items():
        for chunk in chunks:
            stored = chunk.store.gather(chunk.stored)
            for i, probe in enumerate(chunk.probe.tolist()):
                row = probes[side]
                found.append(
                    (
                        int(row.stamps[probe]),
                        tuple(int(ids[probe]) for ids in row.ids),
                        int(stored.stamps[i]),
                        tuple(int(ids[i]) for ids in stored.ids),
                    )
                )
    return found


@dataclass(frozen=True)
class Case:
    probes: dict[int, Rows]
    probings: dict[int, Probing]
    fresh: int

    def run(self, most: BatchMax, resume: Cursor | None = None) -> list[Batch]:
        return list(batches(self.probings, self.probes, {0: self.fresh}, resume, most))


def case(sql: str, seed: int, stamps_of_probes: int = 4, moved: bool = False) -> Case:
    """Rows of both sides, with or without some that came with a move, in a store of their own."""
    rng = np.random.default_rng(seed)
    made = plan(sql)
    stage = made.stages[0]
    state = SideState(stage, 0)

    def columns(side: int, count: int) -> tuple[Vector, ...]:
        return tuple(vector(rng, column.type, count) for column in stage.sides[side].columns)

    def given(epochs: list[int], side: int, dispatcher: int) -> Rows:
        bare = rows(epochs, [0] * len(epochs))
        stamps = bare.stamps + np.uint64(dispatcher << 16)
        return Rows(stamps, (stamps.astype(np.int64),), bare.newest, bare.oldest, columns(side, len(epochs)))

    state.append(given(np.sort(rng.integers(1, 9, 30)).tolist(), 0, 0))
    if moved:
        adoption = Adoption({0: state})
        for dispatcher in (2, 3):
            adoption.take(0, given(np.sort(rng.integers(1, 9, 8)).tolist(), 0, dispatcher))
        adoption.take_over()
    fresh = state.own.end
    state.append(given(np.sort(rng.integers(9, 12, 10)).tolist(), 0, 0))
    # Dispatcher 1, so that no stamp is both stored and probing.
    asking = given(np.sort(rng.integers(9, 9 + stamps_of_probes, 12)).tolist(), 1, 1)
    return Case({0: asking}, {0: Probing(stage, state)}, fresh)


def vector(rng: np.random.Generator, type_: Type, count: int) -> Vector:
    values = rng.integers(0, 4, count)
    if type_.kind is Kind.STRING:
        return Vector(pa.array(["abcdefgh" * 4 * int(value) for value in values], pa.string()))
    return Vector(values.astype(np.int64))


@pytest.mark.parametrize("sql", SQLS)
@pytest.mark.parametrize("seed", range(6))
def test_batches_of_any_size_are_the_same_matches_and_a_cursor_resumes_behind_them(sql: str, seed: int) -> None:
    made = case(sql, seed, moved=seed % 2 == 1)
    probes = made.probes

    def run(bound: int, resume: Cursor | None = None) -> list[Batch]:
        return made.run(BatchMax(bound), resume)

    (whole,) = run(1 << 20)
    expected = sorted(keyed(whole, probes))
    assert expected, "a test without matches shows nothing"
    for bound in (1, 2, 7, 50):
        parts = run(bound)
        assert [part.cursor is None for part in parts] == [False] * (len(parts) - 1) + [True]
        assert all(len(keyed(part, probes)) <= bound for part in parts)
        assert sorted(match for part in parts for match in keyed(part, probes)) == expected
        done: list[Match] = []
        for number, part in enumerate(parts):
            done += keyed(part, probes)
            if part.cursor is None or number % 7 != seed:  # every cursor in some run
                continue
            assert all(match <= tuple(part.cursor) for match in keyed(part, probes))
            rest = [match for again in run(bound + 1, part.cursor) for match in keyed(again, probes)]
            assert sorted(done + rest) == expected


@pytest.mark.parametrize("seed", range(2))
def test_pairs_whose_test_fails_are_counted_once_whatever_the_batches_and_whoever_resumes(seed: int) -> None:
    def failures(bound: int, resume: Cursor | None = None) -> tuple[list[int], list[Batch]]:
        """After each batch, of a fresh incarnation."""
        made = case("SELECT r.k, s.v FROM r JOIN s ON r.k <= s.k AND 6 / (r.v - s.v) < 4", seed, 2)
        counts, found = [], []
        for batch in batches(made.probings, made.probes, {0: made.fresh}, resume, BatchMax(bound)):
            counts.append(made.probings[0].failures)
            found.append(batch)
        return counts, found

    ((expected,), _) = failures(1 << 20)
    assert expected > 0
    for bound in (1, 2, 7):
        counts, found = failures(bound)
        assert counts[-1] == expected
        for count, batch in zip(counts, found, strict=True):
            if batch.cursor is not None:
                assert count + failures(bound, batch.cursor)[0][-1] == expected


@pytest.mark.parametrize("sql", [*SQLS, "SELECT r.k, s.name FROM r JOIN s ON r.k >= s.k AND s.name >= r.name"])
@pytest.mark.parametrize("seed", range(3))
def test_a_batch_is_bounded_in_bytes_and_one_match_may_have_more(sql: str, seed: int) -> None:
    made = case(sql, seed)
    (whole,) = made.run(BatchMax())
    expected = sorted(keyed(whole, made.probes))
    assert expected, "a test without matches shows nothing"
    for most in (1, 300, 1000):
        parts = made.run(BatchMax(bytes=most))
        assert sorted(match for part in parts for match in keyed(part, made.probes)) == expected
        for part in parts:
            sizes = [chunk.size for chunks in part.found.values() for chunk in chunks]
            assert sum(sizes) <= most or len(keyed(part, made.probes)) == 1
            assert sum(sizes) == sum(bytes_of(chunk, made.probes[0]) for c in part.found.values() for chunk in c)


@pytest.mark.parametrize("most", [2_000, 20_000])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT CONCAT(r.name, s.name, r.name, r.name, s.name) AS t, r.k FROM r JOIN s ON r.k >= s.k",
        "SELECT 'LITERAL' || CAST(r.k AS STRING) AS t, s.v FROM r JOIN s ON r.k >= s.k",
        "SELECT UPPER(r.name || s.name) AS t, 'LITERAL' AS u, r.name FROM r JOIN s ON r.k + s.k > 1",
    ],
)
def test_a_batch_is_bounded_by_what_is_written_too(sql: str, most: int) -> None:
    """Also where a literal, or a text written several times, is far more than the rows of the pair."""
    made = plan(sql.replace("LITERAL", "x" * 500))
    stage = made.stages[0]
    of = case(sql, 1)
    state, probes = of.probings[0].state, of.probes
    emission = ResultEmission(made, 1 << 28, Payloads(made, made.stages[0]))
    size = pair_size(emission.expressions, stage, 0)
    cut = Case(probes, {0: Probing(stage, state, size)}, of.fresh)
    (whole,) = cut.run(BatchMax())
    (expected,) = emission.results(probes, whole.found)
    found: list[object] = []
    for part in cut.run(BatchMax(bytes=most)):
        for chunk in (c for chunks in part.found.values() for c in chunks):
            (alone,) = emission.results(probes, {0: [chunk]})
            assert sum(column.nbytes for column in alone.columns) <= chunk.size
        for record in emission.results(probes, part.found):
            assert sum(column.nbytes for column in record.columns) <= most or len(record.times) == 1
            found += lines_of(record)
    assert sorted(map(repr, found)) == sorted(map(repr, lines_of(expected)))
    assert len(found) > 20


def lines_of(results: Results) -> list[object]:
    columns = (column.values.tolist() for column in results.columns)
    return list(zip(results.ids_high.tolist(), *columns, strict=True))


def bytes_of(found: Found, probes: Rows) -> int:
    """Of both rows of each match, texts in full, by looking at each."""
    total = 0
    for rows_of, at in ((probes, found.probe), (found.store.gather(found.stored), range(len(found.stored)))):
        for column in rows_of.columns:
            values = column.values
            texts = isinstance(values, pa.Array)
            total += sum(8 + (len(values[int(i)].as_py()) if texts else 0) for i in at)
    return total + 48 * len(found.probe)


@pytest.mark.parametrize("moved", [False, True])
def test_the_matches_of_one_stamp_are_cut_in_canonical_order(moved: bool) -> None:
    made = case("SELECT r.k, s.v FROM r JOIN s ON r.k <> s.k + 9", 1, stamps_of_probes=1, moved=moved)
    made = Case({0: made.probes[0].slice(11, 12)}, made.probings, made.fresh)
    (whole,) = made.run(BatchMax())
    expected = sorted(keyed(whole, made.probes))
    assert len(expected) >= 30
    for most in (BatchMax(1), BatchMax(4), BatchMax(11), BatchMax(11, 300)):
        parts = made.run(most)
        assert [match for part in parts for match in sorted(keyed(part, made.probes))] == expected


@pytest.mark.parametrize("count", [1, 5, 20, 1000])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_are_selected_without_holding_the_others(count: int, seed: int) -> None:
    """What is held at once is bounded by what is asked for and by a chunk, however many there are."""
    made = case("SELECT r.k, s.v FROM r JOIN s ON r.k <> s.k + 9", seed, stamps_of_probes=1, moved=True)
    (whole,) = made.run(BatchMax())
    rng, probes, chunk = np.random.default_rng(seed), made.probes[0], 7
    # All probes count as of one stamp here, and a chunk's matches come in any order.
    pieces: list[Found] = []
    for found in whole.found[0]:
        order = rng.permutation(len(found.probe))
        for at in range(0, len(order), chunk):
            some = order[at : at + chunk]
            pieces.append(Found(found.store, found.probe[some], found.stored[some], 0))
    expected = sorted(match[1:] for match in keyed(whole, made.probes))
    done: list[tuple[object, ...]] = []
    bound = None
    while len(done) < len(expected):
        least = Least(probes, count, bound)
        for piece in pieces:
            least.take(piece)
            assert least.held <= 2 * count + chunk
        selected = least.close()
        assert selected is not None and least.seen == len(expected)
        stretch = selected.stretch(0, len(selected), 0, np.zeros(len(selected), np.int64))
        done += sorted(match[1:] for match in keyed(Batch({0: stretch}, None), made.probes))
        bound = selected.key(len(selected) - 1)
        assert least.more == (len(done) < len(expected))
        assert done == expected[: len(done)] and len(selected) <= count
    assert Least(probes, count, bound).close() is None
