"""What YAML's parser gives up on is said in words of people: no token, node or flow mapping, and the place where the
thing began."""

from __future__ import annotations

import re

import pytest

from biclique.query.document import read_document
from biclique.query.errors import QueryError

JARGON = re.compile(r"token|scalar|flow|block end|mapping|sequence|stream|node|<|\\t")

CASES = {
    "a: {b: 1\nc: 2\n": "line 1, column 4: the { that opens here is not closed, or a comma is missing in it, before",
    "a: [b, c\nd: e\n": "line 1, column 4: the [ that opens here is not closed, or a comma is missing in it, before",
    "a: {b: 1, c: [1, 2}\n": "line 1, column 14: the [ that opens here is not closed",
    "a:\n  b: 'c\n": "line 2, column 6: the quote that opens here is not closed; close it",
    'a: "b\nc: d\n': "line 1, column 4: the quote that opens here is not closed; close it",
    "a: 'b' c\n": "line 1, column 8: what stands here fits no key, or is indented otherwise than its block",
    "a: b: c\n": "line 1, column 5: a colon stands where no key can end; put the value in quotes, or",
    "a: b\n\tc: d\n": "line 2, column 1: a tab stands where only spaces may; indent with spaces alone",
    "a: @b\n": "line 1, column 4: a value begins with @, which has a meaning of its own in YAML; put",
    "a: %b\n": "line 1, column 4: a value begins with %, which has a meaning",
    'a: "\\q"\n': "line 1, column 6: a backslash in double quotes begins nothing that YAML knows; write it twice",
    "a:\n  b: 1\n c: 2\n": "line 3, column 2: what stands here fits no key, or is indented otherwise than its block",
    "a: b\nccc\nd: e\n": "line 2, column 1: a line that should be key: value has no colon",
    "a: - b\n": "line 1, column 4: a member of a list (-) stands where none can",
    "a: |x\n b\n": "line 1, column 5: something follows | or > on its line; begin the text on the next line",
    "a: *\n": "line 1, column 5: a value begins with * or &, and no name follows; put it in quotes",
    "a: !<x b\n": "line 1, column 7: a value begins with !, which is for tags; write the value without a tag",
    "a: ]\n": "line 1, column 4: a value is missing, or begins with , ] or }; write it, in quotes if need be",
    "{a: b}}\n": "line 1, column 7: something follows the end of the manifest; put one JoinQuery into a file",
    "%YAML 3.0\n---\na: 1\n": "line 1, column 1: a line begins with %; leave it out",
}


@pytest.mark.parametrize("text", CASES)
def test_the_sentence(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        read_document(text)
    sentence = str(caught.value)
    assert sentence.startswith(CASES[text])
    assert JARGON.search(sentence) is None


@pytest.mark.parametrize("seed", range(400))
def test_no_broken_text_brings_the_parsers_words_to_light(seed: int) -> None:
    """Every prefix and every text with one character taken out or put in, of a manifest with a bit of everything."""
    whole = "a: {b: 'c d', e: [1, 2]}\nf:\n  - g: \"h\\n\"\n    i: |\n      j: k\n  - l\nm: &n o\np: *n\n"
    sign = "{}[]'\"\t:-|>&*!%@,?#\n"[seed % 20]
    at = seed * 7 % len(whole)
    for text in (whole[:at], whole[:at] + whole[at + 1 :], whole[:at] + sign + whole[at:]):
        error = refusal(text)
        if error is not None:
            assert JARGON.search(error.problem) is None or error.problem == "the manifest is no mapping", str(error)
            assert error.place.startswith("line ") and error.remedy


def refusal(text: str) -> QueryError | None:
    try:
        read_document(text)
    except QueryError as error:
        return error
    return None
