"""Golden pairs: a condition as written, and the conjuncts that it becomes, with every conversion.

UPDATE_GOLDEN=1 writes expressions.golden anew from the conditions in expressions.txt.
"""

from __future__ import annotations

import os
from pathlib import Path

from biclique.query.schema import parse_schema
from biclique.query.sql import check_sql
from tests.model.tree_invariants import check_query
from tests.unit.query.rendering import rendered

HERE = Path(__file__).parent
FIELDS = {
    "o": parse_schema(
        "id BIGINT, t TINYINT, s SMALLINT, i INT, x DOUBLE, d DECIMAL(10,2), b BOOLEAN, n STRING, day DATE, "
        'at TIMESTAMP, "Odd Name" STRING'
    ),
    "f": parse_schema("i INT, x DOUBLE, d DECIMAL(10,2), e DECIMAL(18,6), b BOOLEAN, n STRING, day DATE, at TIMESTAMP"),
}
NAMES = tuple((alias, tuple(field.name for field in fields)) for alias, fields in FIELDS.items())
TYPES = tuple(tuple(field.type for field in fields) for fields in FIELDS.values())


def becomes(condition: str) -> str:
    checked = check_sql(f"SELECT o.id FROM o JOIN f ON {condition}", list(FIELDS.items()))
    check_query(checked, TYPES)
    conjuncts = [*checked.filters[0], *checked.filters[1], *checked.predicates]
    return "".join(f"    {rendered(conjunct, NAMES)}\n" for conjunct in conjuncts)


def test_each_condition_becomes_what_the_golden_file_says() -> None:
    conditions = (HERE / "expressions.txt").read_text(encoding="utf-8").splitlines()
    found = "".join(f"{condition}\n{becomes(condition)}" for condition in conditions)
    golden = HERE / "expressions.golden"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
    assert len(conditions) >= 95
