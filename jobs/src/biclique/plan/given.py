"""Statistics that a user gives, as `name=number`: what `--stat` of the commands takes.

    orders.rate        tuples a second, after WHERE
    orders.rows        stored at the same time, when the state is at its largest
    orders.distinct    how many values its equality keys have
    orders.heaviest    the share of its tuples that have the most frequent key
    equality, band, range, inequality, unequal, other
                       the share of all pairs that one condition of this kind lets through
    string_bytes       of an average STRING
    delay_s            the greatest delay between being sent and being handled

A relation is named by its alias; the name of a source stands for every relation made of it. What is not given stays as
it is assumed; rows stored follow a given rate, unless they are given too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from biclique.plan.statistics import Selectivities, Statistics, default_statistics, stored_rows
from biclique.query.conversion import short
from biclique.query.errors import QueryError
from biclique.query.model import Query
from biclique.query.scope import nearest

NUMBER = re.compile(r"\d{1,40}(\.\d{0,40})?([eE][-+]?\d{1,2})?", re.ASCII)
SHARES = tuple(field.name for field in fields(Selectivities) if field.name != "distinct")
WHOLE = (*SHARES, "string_bytes", "delay_s")
OF_RELATION = ("rate", "rows", "distinct", "heaviest")
EXAMPLE = "write one such as --stat orders.rate=5000 or --stat band=1e-6"


@dataclass(frozen=True, slots=True)
class Range:
    least: float
    most: float


AMOUNT, SHARE, COUNT, LENGTH = Range(1e-9, 1e15), Range(1e-18, 1.0), Range(1.0, 1e18), Range(0.0, 1e9)
RANGES = dict.fromkeys(SHARES, SHARE) | {
    "rate": AMOUNT,
    "rows": AMOUNT,
    "distinct": COUNT,
    "heaviest": Range(0.0, 1.0),
    "string_bytes": LENGTH,
    "delay_s": LENGTH,
}


def given_statistics(query: Query, settings: Iterable[str]) -> Statistics:
    """The defaults with the settings in them; QueryError about the first that is wrong."""
    written: list[str] = []
    values: dict[tuple[int | None, str], float] = {}
    for setting in settings:
        relations, name, value = _parsed(query, setting)
        for relation in relations:
            if (relation, name) in values:
                raise _error(setting, "it is given twice", "keep one of them")
            values[relation, name] = value
        written.append("".join(setting.split()))
    return replace(_filled(query, values), given=tuple(written))


def _parsed(query: Query, setting: str) -> tuple[tuple[int | None, ...], str, float]:
    """The relations that are meant (None: all), the statistic, its value."""
    left, sign, right = setting.partition("=")
    if not sign or not left.strip() or not right.strip():
        raise _error(setting, "a statistic is a name, = and a number", EXAMPLE)
    relation, dot, name = left.strip().rpartition(".")
    known = OF_RELATION if dot else WHOLE
    if name not in known:
        if not dot and name in OF_RELATION:
            raise _error(setting, f"{name} is of one relation", f"write {query.relations[0].name}.{name}=...")
        what = "statistics of a relation" if dot else "statistics of the whole query"
        raise _error(setting, f"there is no statistic {short(name)}", nearest(name, known, what))
    text, allowed = right.strip(), RANGES[name]
    if text.startswith("-") and NUMBER.fullmatch(text[1:]) is not None:
        problem = "it must be above zero" if allowed.least else "it must not be below zero"
        raise _error(setting, problem, f"write {allowed.least:g} to {allowed.most:g}")
    if NUMBER.fullmatch(text) is None:
        raise _error(setting, f"{short(text)} is no number", "write one such as 5000, 0.25 or 1e-6")
    value = float(text)
    if not allowed.least <= value <= allowed.most:
        raise _error(setting, f"{short(text)} is out of range", f"write {allowed.least:g} to {allowed.most:g}")
    return (_named(query, relation, setting) if dot else (None,)), name, value


def _named(query: Query, name: str, setting: str) -> tuple[int, ...]:
    names = [relation.name.casefold() for relation in query.relations]
    sources = [query.sources[relation.source].name.casefold() for relation in query.relations]
    for known in (names, sources):
        found = tuple(number for number, own in enumerate(known) if own == name.casefold())
        if found:
            return found
    choices = [relation.name for relation in query.relations]
    raise _error(setting, f"there is no relation {short(name)}", nearest(name, choices, "relations"))


def _filled(query: Query, values: dict[tuple[int | None, str], float]) -> Statistics:
    assumed = default_statistics(query)
    relations = []
    for number, known in enumerate(assumed.relations):
        rate = values.get((number, "rate"), known.rate)
        rows = values.get((number, "rows"), stored_rows(query.relations[number].window, rate))
        relations.append(replace(known, rate=rate, rows=rows, heaviest_key=values.get((number, "heaviest"), 0.0)))
    shares = {name: values[None, name] for name in SHARES if (None, name) in values}
    distinct = tuple(values.get((number, "distinct"), 0.0) for number in range(len(relations)))
    return replace(
        assumed,
        relations=tuple(relations),
        selectivities=replace(assumed.selectivities, **shares, distinct=distinct if any(distinct) else ()),
        string_bytes=values.get((None, "string_bytes"), assumed.string_bytes),
        delay_s=values.get((None, "delay_s"), assumed.delay_s),
    )


def _error(setting: str, problem: str, remedy: str) -> QueryError:
    return QueryError(f"--stat {short(setting)}", problem, remedy)
