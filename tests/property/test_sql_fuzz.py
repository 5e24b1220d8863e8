"""No text brings the SQL checker down, and nothing that it accepts breaks a promise of query/expression.py.

FUZZ_INPUTS says how many inputs (20,000), FUZZ_SEED from which seed. A failure names seed and number of the input.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from biclique.query.errors import QueryError
from biclique.query.sql import Checked, check_sql
from tests.model.tree_invariants import check_query
from tests.property.sql_inputs import SOURCES, sql_input

INPUTS = int(os.environ.get("FUZZ_INPUTS", "20000"))
INPUTS_FAST = 1500  # what `make check` has time for
SEED = int(os.environ.get("FUZZ_SEED", "1"))


def verdict(sql: str) -> Checked | QueryError:
    try:
        return check_sql(sql, SOURCES)
    except QueryError as error:
        return error


def judge(sql: str) -> str:
    found = verdict(sql)
    if isinstance(found, QueryError):
        sentence = str(found)
        assert sentence.startswith("spec.sql") and sentence.isprintable() and len(sentence) < 600, sentence
        assert "sqlglot" not in sentence, sentence
        assert found.problem and found.remedy, f"no remedy: {sentence}"
        return "refused"
    types = [tuple(field.type for field in SOURCES[source][1]) for _, source in found.relations]
    check_query(found, tuple(types))
    return "accepted"


def fuzz(inputs: int) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(inputs):
        sql = sql_input(SEED, number)
        try:
            outcomes[judge(sql)] += 1
        except Exception as error:
            raise AssertionError(f"FUZZ_SEED={SEED}, input {number}: {sql!r}") from error
    # A fuzz in which nothing passes, or everything, looks at one half of the checker only.
    assert outcomes["accepted"] > inputs // 20 and outcomes["refused"] > inputs // 4, outcomes


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The parser's library logs what it thinks of some inputs: a user would see text that no sentence explains."""
    yield
    assert not caplog.records


def test_the_first_inputs_are_accepted_as_promised_or_refused_in_a_sentence() -> None:
    fuzz(min(INPUTS, INPUTS_FAST))


@pytest.mark.slow
def test_every_input_is_accepted_as_promised_or_refused_in_a_sentence() -> None:
    fuzz(INPUTS)
