"""YAML as plain values with places; every bound refuses before it hurts."""

from __future__ import annotations

import pytest

from biclique.query.document import BYTES_MAX, read_document
from biclique.query.errors import QueryError


def refused(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        read_document(text)
    return str(caught.value)


def test_values_are_what_yaml_makes_of_them() -> None:
    text = "a: 1\nb: [x, 'y', \"2\", 2.5, -3, 1e3]\n"
    text += "c: {d: null, e: ~, f:, g: true, h: no, i: 2026-03-01}\nj: |\n  k\n  l\n"
    assert read_document(text).value == {
        "a": 1,
        "b": ["x", "y", "2", 2.5, -3, "1e3"],
        "c": {"d": None, "e": None, "f": None, "g": True, "h": False, "i": "2026-03-01"},
        "j": "k\nl\n",
    }


def test_places_are_those_of_the_keys() -> None:
    document = read_document("a: 1\nb:\n  - c: 2\n  - {d: 3}\n")
    assert document.place(("b", 1, "d")) == "line 4, b[1].d"
    assert document.place(("b", 0, "c", "missing")) == "line 3, b[0].c.missing"
    assert document.places[("b", 1, "d")] == (4, 6)


def test_an_alias_is_the_value_it_names() -> None:
    document = read_document("a: &x {k: [1, 2]}\nb: *x\nc: *x\n")
    assert document.value == {"a": {"k": [1, 2]}, "b": {"k": [1, 2]}, "c": {"k": [1, 2]}}


def test_an_alias_is_counted_as_often_as_it_is_used() -> None:
    wide = "a: &a [" + ", ".join("x" * 1 for _ in range(1000)) + "]\n"
    assert len(read_document(wide + "b: [" + ", ".join(["*a"] * 10) + "]\n").value["b"]) == 10
    assert "more than 20000 values" in refused(wide + "b: [" + ", ".join(["*a"] * 30) + "]\n")


def test_size_is_bounded_in_bytes() -> None:
    assert "longer than 256 kB" in refused("a: " + "é" * (BYTES_MAX // 2) + "\n")


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_depth_is_bounded(opening: str) -> None:
    assert "nests deeper than 32" in refused(opening * 60_000)


@pytest.mark.parametrize(
    "text",
    [
        *("a: 0x1f\n", "a: 1_000\n", "a: 1:30\n", "a: 010\n", "a: .inf\n", "a: .nan\n", "a: 1_0.5\n"),
        *("a: !!int '5'\n", "a: !x 5\n", "? [a]\n: b\n", "1: a\n", "~: a\n", "<<: {a: 1}\n", "a: 1\na: 2\n"),
        *("a: b: c\n", "a\n", "", "--- \n", "a: 1\n...\nb: 2\n", "%YAML 3.0\n---\na: 1\n", "a: \x00\n", "a: \ud800\n"),
        *("a: 'b\n", "a: |5\n  x\n", "&a a: *b\n", "a: &a\n  b: *a\n"),
    ],
)
def test_what_is_refused_is_refused_in_one_sentence(text: str) -> None:
    sentence = refused(text)
    assert sentence.startswith("line ") and sentence.isprintable() and "; " in sentence
