"""The one exception for what a user wrote wrong: place, problem and remedy in one sentence, shown without traceback."""

from __future__ import annotations


class QueryError(Exception):
    """`place` is where a user would look: `spec.sql, line 1, column 12` or `line 4, spec.sources[0].window.time`."""

    def __init__(self, place: str, problem: str, remedy: str = "") -> None:
        self.place, self.problem, self.remedy = place, problem, remedy
        sentence = f"{place}: {problem}" + (f"; {remedy}" if remedy else "")
        # What a user wrote may be quoted in it: no line break or control sequence of theirs reaches a terminal or log.
        super().__init__("".join(character if character.isprintable() else "?" for character in sentence))
