"""The column list: types and their synonyms, and what is refused."""

from __future__ import annotations

import pytest

from biclique.query.model import Field
from biclique.query.schema import TYPE_NAMES, SchemaError, parse_schema, type_named
from biclique.query.types import BIGINT, DOUBLE, INT, STRING, decimal


def test_a_list_of_columns() -> None:
    text = 'id BIGINT NOT NULL, price decimal(10, 2), "a ""b"" c" varchar(20) null,\n  é float, n numeric(5), d dec'
    assert parse_schema(text) == (
        Field("id", BIGINT, nullable=False),
        Field("price", decimal(10, 2)),
        Field('a "b" c', STRING),
        Field("é", DOUBLE),
        Field("n", decimal(5, 0)),
        Field("d", decimal(10, 0)),
    )


@pytest.mark.parametrize("name", [*TYPE_NAMES, *(name.lower() for name in TYPE_NAMES)])
def test_every_synonym_in_any_case(name: str) -> None:
    assert parse_schema(f"x {name}") == (Field("x", TYPE_NAMES[name.upper()]),)


def test_synonyms_mean_what_sql_means() -> None:
    assert type_named("integer") == INT and type_named("long") == BIGINT and type_named("real") == DOUBLE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a column name should be"),
        ("id", "has no type"),
        ("id BIGINT,", "ends where a column name"),
        (", id BIGINT", ", stands where a column name"),
        ("id BIGINT x INT", "x follows the column id"),
        ("id BIGINT NOT", "NOT follows the column id"),
        ("id DECIMAL(19,0)", "more than 18 digits"),
        ("id DECIMAL(2,3)", "more digits after the point"),
        ("id DECIMAL(0,0)", "more digits after the point"),
        ("id DECIMAL(1,2,3)", "takes digits"),
        ("id DECIMAL(", "is not closed"),
        ("id DECIMAL(a)", "are not numbers"),
        ("id DECIMAL(1 2)", "are not numbers"),
        ("id BIGINT(5)", "takes no parameters"),
        ("id UINT", "there is no type UINT"),
        ("id HUGEINT", "there is no type HUGEINT"),
        ("id ARRAY", "there is no type ARRAY"),
        ("id INTERVAL", "there is no type INTERVAL"),
        ("id INT, ID INT", "have the same name"),
        ("_result_id INT", "is reserved"),
        ('" x" INT', "cannot name a column"),
        ('"' + "x" * 129 + '" INT', "cannot name a column"),
        ("id INT; x INT", "is not understood"),
        (", ".join(f"c{n} INT" for n in range(1001)), "more than 1000 columns"),
    ],
)
def test_what_is_refused_says_why(text: str, says: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert says in str(caught.value) and caught.value.remedy
