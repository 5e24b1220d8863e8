"""The one exception for what a user wrote wrong: a place, a problem and a remedy, in one sentence, shown without traceback."""

from __future__ import annotations


class QueryError(Exception):
    """`place` is where a user would look: `spec.sql, column 12: a.x + 1` or `spec.sources[0].window` or `line 4, column 2`."""

    def __init__(self, place: str, problem: str, remedy: str = "") -> None:
        self.place, self.problem, self.remedy = place, problem, remedy
        super().__init__(f"{place}: {problem}" + (f"; {remedy}" if remedy else ""))
