"""What the YAML parser found wrong, said without its words: where it began, what is wrong, what to do.

The parser speaks of tokens, nodes and flow mappings, and names the place where it gave up; a person needs the bracket
or the quote that was opened. What is not in the table gets a sentence too, only a duller one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import yaml

from biclique.query.errors import QueryError

INDENT = "indent with spaces alone"


@dataclass(frozen=True, slots=True)
class Said:
    """`found`: in the parser's context and problem. `begun`: the place is where the thing begins, not where it was
    given up; then `{there}` in the problem is the latter. `{sign}`: the first group of `found`."""

    found: str
    problem: str
    remedy: str
    begun: bool = False


TABLE = (
    Said(r"character '\\t' that cannot start", "a tab stands where only spaces may", INDENT),
    Said(
        r"character '(.)' that cannot start",
        "a value begins with {sign}, which has a meaning of its own in YAML",
        "put the value in quotes",
    ),
    Said(
        r"a flow mapping\|",
        "the { that opens here is not closed, or a comma is missing in it, before {there}",
        "close it with }, close a quote in it, or put a comma",
        True,
    ),
    Said(
        r"a flow sequence\|",
        "the [ that opens here is not closed, or a comma is missing in it, before {there}",
        "close it with ], close a quote in it, or put a comma",
        True,
    ),
    Said(r"a quoted scalar\|found unexpected", "the quote that opens here is not closed", "close it", True),
    Said(
        r"escape",
        "a backslash in double quotes begins nothing that YAML knows",
        "write it twice, or use single quotes",
    ),
    Said(
        r"mapping values are not allowed",
        "a colon stands where no key can end",
        "put the value in quotes, or correct the indentation",
    ),
    Said(
        r"sequence entries are not allowed|block sequence",
        "a member of a list (-) stands where none can",
        "begin the list on a line of its own, all its members indented alike",
    ),
    Said(
        r"could not find expected ':'",
        "a line that should be key: value has no colon, or no space behind it",
        "write key: value, or correct the indentation",
        True,
    ),
    Said(
        r"expected <block end>",
        "what stands here fits no key, or is indented otherwise than its block, which begins at {begin}",
        "indent the keys of a block, and the members of a list, alike, and put text after a quote into it",
    ),
    Said(
        r"a block scalar\|",
        "something follows | or > on its line",
        "begin the text on the next line",
    ),
    Said(r"scanning an (alias|anchor)\|", "a value begins with * or &, and no name follows", "put it in quotes"),
    Said(r"directive|YAML document", "a line begins with %", "leave it out: a manifest needs no directive"),
    Said(r"expected '<document start>'", "something follows the end of the manifest", "put one JoinQuery into a file"),
    Said(r"tag", "a value begins with !, which is for tags", "write the value without a tag, or in quotes"),
    Said(
        r"content, but found '<stream end>'",
        "the manifest ends where a value should be",
        "close what is open, or write it",
    ),
    Said(r"expected the node content", "a value is missing, or begins with , ] or }", "write it, in quotes if need be"),
)
DULL = Said("", "this is no YAML", "correct the indentation, quotes or brackets near it")


def yaml_complaint(error: yaml.MarkedYAMLError) -> QueryError:
    words = f"{error.context or ''}|{error.problem or ''}"
    said = next((said for said in TABLE if re.search(said.found, words, re.DOTALL)), DULL)
    begin, there = _place(error.context_mark), _place(error.problem_mark)
    place = (begin or there) if said.begun else (there or begin)
    return QueryError(place or "line 1, column 1", _filled(said, words, begin, there), said.remedy)


def _filled(said: Said, words: str, begin: str, there: str) -> str:
    sign = re.search(said.found, words, re.DOTALL)
    filled = said.problem.replace("{begin}", begin or "the first line").replace("{there}", there or "the end")
    return filled.replace("{sign}", sign[1]) if sign is not None and sign.groups() else filled


def _place(mark: yaml.Mark | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
