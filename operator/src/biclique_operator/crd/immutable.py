"""What cannot be changed once a query has begun, since its state cannot follow: as rules that compare with what was
there before.

plan/fingerprint.py is the judge, and its sentence is the one said here; docs/data-plane.md has the table. Here stands
what can be told without the SQL, the schemas and the planner: for the rest the operator says it. A change that is
followed is let pass: another spelling of a time, a key whose default is written out. Before a query has begun
(`status.began`, written by the operator) there is no state, and everything may be changed.
"""

from __future__ import annotations

from biclique.query.manifest import SOURCES_MAX
from biclique.query.moments import MICROSECONDS
from biclique_operator.crd.rule import Rule, quoted

_BEGAN = "has(oldSelf.status) && has(oldSelf.status.began)"
_SPARED = "which the state it has cannot follow; restore it, or give the query a new name to begin anew"
_FACTORS = "{" + ", ".join(f"{quoted(unit)}: {size}.0" for unit, size in MICROSECONDS.items()) + "}"
PARTITIONS = 4  # topics.partitions where it is not given; a test holds it equal to the model's


def _once_begun(followed: str, key: str, place: str, before: str = "", after: str = "") -> Rule:
    """`before`, `after`: expressions that come to a text, for the sentence."""
    told = (
        f"{quoted(key + ': it was `')} + {before} + '` when this query began and is `' + {after} + "
        f"{quoted('` now, ' + _SPARED)}"
        if before
        else ""
    )
    return Rule(f"!({_BEGAN}) || {followed}", f"{key} has changed since this query began, {_SPARED}", told, place)


def _of_sources(key: str, value: str, only_if: str = "") -> Rule:
    """`value`: an expression of {0}, a source, that comes to a text."""
    before, after = (f"{root}.spec.sources.map(s, {value.format('s')})" for root in ("oldSelf", "self"))
    guard = f"!({only_if}) || " if only_if else ""
    listed = [_listed(f"{root}.spec.sources", value) for root in ("oldSelf", "self")]
    return _once_begun(f"{guard}{before} == {after}", key, ".spec.sources", *listed)


def _listed(sources: str, value: str) -> str:
    """As a list is written. One by one: of what becomes of a list the server knows no length, and takes the worst."""
    rest = (
        f" + ({sources}.size() > {n} ? ', ' + ({value.format(f'{sources}[{n}]')}) : '')" for n in range(1, SOURCES_MAX)
    )
    return f"({value.format(f'{sources}[0]')}){''.join(rest)}"


_NAMES = "{0}.spec.sources.map(s, s.name)"
_SAME_SOURCES = f"{_NAMES.format('self')} == {_NAMES.format('oldSelf')}"


def _microseconds(source: str) -> str:
    """Of a window, whatever unit it is written in."""
    time = f"{source}.window.time"
    return f"int(double({time}.find('[0-9]+([.][0-9]+)?')) * {_FACTORS}[{time}.find('[a-z]+')] + 0.5)"


_SAME_WINDOW = (
    f"(has(s.window.time) && has(o.window.time) ? {_microseconds('s')} == {_microseconds('o')} : "
    "has(s.window.tuples) && has(o.window.tuples) && s.window.tuples == o.window.tuples)"
)
_TOPIC = "has({0}.kafka) ? {0}.kafka.topic : ''"
_COLUMN = (
    'has({0}.eventTime) && has({0}.eventTime.column) ? {0}.eventTime.column.lowerAscii() : "(the record\'s own time)"'
)
_ARROW = (
    "has({0}.kafka) && has({0}.kafka.format) && {0}.kafka.format == 'arrow' ? 'many rows a message' : "
    "'one row a message'"
)
_PARTITIONS = (
    f"(has({{0}}.spec.topics) && has({{0}}.spec.topics.partitions) ? {{0}}.spec.topics.partitions : {PARTITIONS})"
)


def _both_say(key: str) -> str:
    """Where one does not, the planner may have chosen what the other says."""
    return " && ".join(f"has({root}.spec.plan) && has({root}.spec.plan.{key})" for root in ("self", "oldSelf"))


ONCE_BEGUN: tuple[Rule, ...] = (
    _of_sources("spec.sources", "{0}.name"),
    _of_sources("spec.sources[].kafka.topic", _TOPIC, _SAME_SOURCES),
    _of_sources("spec.sources[].kafka.format", _ARROW, _SAME_SOURCES),
    _of_sources("spec.sources[].eventTime.column", _COLUMN, _SAME_SOURCES),
    _once_begun(
        "self.spec.sources.all(s, !has(s.window) || oldSelf.spec.sources.all(o, o.name != s.name || "
        f"!has(o.window) || {_SAME_WINDOW}))",
        "spec.sources[].window",
        ".spec.sources",
    ),
    _once_begun(
        f"!({_both_say('strategy')}) || self.spec.plan.strategy == oldSelf.spec.plan.strategy",
        "spec.plan.strategy",
        ".spec.plan",
        "oldSelf.spec.plan.strategy",
        "self.spec.plan.strategy",
    ),
    _once_begun(
        f"!({_both_say('subgroups')}) || (has(self.spec.plan.strategy) && self.spec.plan.strategy == 'matrix') || "
        "self.spec.plan.subgroups.all(name, !(name in oldSelf.spec.plan.subgroups) || "
        "self.spec.plan.subgroups[name] == oldSelf.spec.plan.subgroups[name])",
        "spec.plan.subgroups",
        ".spec.plan",
    ),
    _once_begun(f"{_PARTITIONS.format('self')} == {_PARTITIONS.format('oldSelf')}", "spec.topics.partitions", ".spec"),
)

NEVER_IN_A_SUBGROUP: tuple[Rule, ...] = (
    Rule("self.query == oldSelf.query", "a JoinSubgroup stays with its query; the operator makes those of others"),
    Rule("self.subgroup == oldSelf.subgroup", "a JoinSubgroup stays the one it is; the operator makes the others"),
)
