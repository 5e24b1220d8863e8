"""What the API server refuses by itself, as rules of the Common Expression Language, with the sentences of `validate`.

A rule stands where the model's own check stands: at a key, a block, a kind of quantity, or a form of text. Where a rule
and a model differ, the model is right: the operator asks it anyway, and says what the API server let pass. So a rule
may be laxer than the model, and never stricter, but for what only a cluster cannot do (ON_A_CLUSTER).

A rule of `immutable.py` needs what was there before; the ones here look at one manifest alone.
"""

from __future__ import annotations

from typing import Any

from biclique.query.complaints import FORMS
from biclique.query.manifest import DNS_LABEL, INSIDE, SOURCES_MAX
from biclique.query.moments import DURATION_US_MAX, MICROSECONDS
from biclique_operator.crd.immutable import NEVER_IN_A_SUBGROUP, ONCE_BEGUN
from biclique_operator.crd.rule import Rule, quoted
from biclique_operator.only_on_a_cluster import BROKERS, FILES, STORE


def _of_written(rest: str) -> str:
    return f"'`' + self + '` ' + {rest}"


def _one_value(holds: str, rest: str) -> Rule:
    return Rule(holds, f"this {rest}", _of_written(quoted(rest)))


def _text_or_number(holds: str, rest: str) -> Rule:
    """A number is not quoted: the server takes what may become of one to be as long as a request."""
    return Rule(holds, f"this {rest}", f"type(self) == int ? {quoted('this ' + rest)} : {_of_written(quoted(rest))}")


# --- texts -----------------------------------------------------------------------------------------------------------


# The server's regular expressions take no more than a thousand repetitions, those inside of others multiplied.
_LAXER = {INSIDE: r"^([^/.][^/]*(/[^/.][^/]*)*)?$"}


def form(pattern: str) -> tuple[Rule, ...]:
    """`pattern`: one of the model's."""
    remedy = FORMS.get(pattern, f"it must match {pattern}")
    asked = quoted(_LAXER.get(pattern, pattern))
    return (_one_value(f"self.matches({asked})", f"does not have the form of this key; {remedy}"),)


_PLACE_TO_START = (
    r"^\s*[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?\s*$"
)
_NO_PLACE = "is no place to start; write earliest, latest or a time such as 2026-03-01T00:00:00Z"

# --- quantities ------------------------------------------------------------------------------------------------------

_DURATION = r"^\s*-?[0-9]{1,18}([.][0-9]{1,18})?\s*[A-Za-zµ]*\s*$"
_UNIT = "self.find('[A-Za-zµ]+')"
_UNITS = f"[{', '.join(map(quoted, MICROSECONDS))}]"
_FACTORS = "{" + ", ".join(f"{quoted(unit)}: {size}.0" for unit, size in MICROSECONDS.items()) + "}"
_WRITE_DURATION = "; write a duration such as 10m (units: ms, s, m, h, d)"
_IS_DURATION = f"self.matches({quoted(_DURATION)}) && {_UNIT} in {_UNITS}"
_IS_NEGATIVE = "self.contains('-') && self.find('[1-9]') != ''"
_WHAT_IS_WRONG = (
    f"(!self.matches({quoted(_DURATION)}) ? 'is no duration' : {_UNIT} == '' ? 'has no unit' : "
    f"!({_UNIT} in {_UNITS}) ? 'has the unknown unit ' + {_UNIT} : 'is negative')"
)
_MICROSECONDS = f"double(self.find('[0-9]+([.][0-9]+)?')) * {_FACTORS}[{_UNIT}]"

_MEMORY = r"^[0-9]{1,15}([.][0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$"
_NO_MEMORY = "is no amount of memory; write one such as 512Mi or 2Gi"
_OUTSIDE = "is not between 1Mi and 1024Ti; write one such as 512Mi or 2Gi"
_CPU = r"^[0-9]{1,6}([.][0-9]{1,3})?m?$"
_NO_CPU = "is no share of a processor; write one such as 500m or 2"

OF_QUANTITIES: dict[str, tuple[Rule, ...]] = {
    "duration": (
        Rule(
            f"{_IS_DURATION} && !({_IS_NEGATIVE})",
            f"this is no duration{_WRITE_DURATION}",
            _of_written(f"{_WHAT_IS_WRONG} + {quoted(_WRITE_DURATION)}"),
        ),
        _one_value(
            f"!({_IS_DURATION}) || {_MICROSECONDS} <= {DURATION_US_MAX}.0",
            f"is longer than a hundred years{_WRITE_DURATION}",
        ),
    ),
    "memory": (
        _text_or_number(f"type(self) == int ? self >= 0 : self.matches({quoted(_MEMORY)})", _NO_MEMORY),
        _text_or_number(
            "type(self) == int ? self < 0 || (self >= 1048576 && self <= 1125899906842624) : "
            f"!self.matches({quoted(_MEMORY)}) || (quantity(self).compareTo(quantity('1Mi')) >= 0 && "
            "quantity(self).compareTo(quantity('1024Ti')) <= 0)",
            _OUTSIDE,
        ),
    ),
    "cpu": (
        _text_or_number(
            f"type(self) == int ? self >= 1 && self < 1000000 : self.matches({quoted(_CPU)}) && "
            "self.find('[1-9]') != ''",
            _NO_CPU,
        ),
    ),
}

# --- keys ------------------------------------------------------------------------------------------------------------

# What the model leaves open and the server has to reckon with.
BOUNDS: dict[tuple[str, str], dict[str, Any]] = {
    ("PlanSpec", "subgroups"): {"maxProperties": 2 * SOURCES_MAX},  # a relation's name each, or a source's
}

OF_KEYS: dict[tuple[str, str], tuple[Rule, ...]] = {
    ("KafkaInputSpec", "startingOffsets"): (
        _one_value(f"self in ['earliest', 'latest'] || self.matches({quoted(_PLACE_TO_START)})", _NO_PLACE),
    ),
    ("RedisSpec", "url"): (
        Rule(
            "!self.matches('://[^/]*:[^/]*@') && !self.contains('password=')",
            "a password stands in it; put it into a Secret, and name that",
        ),
    ),
}

# --- blocks ----------------------------------------------------------------------------------------------------------


def _not_both(first: str, second: str) -> Rule:
    return Rule(f"!(has(self.{first}) && has(self.{second}))", f"this block has both {first} and {second}; keep one")


def _one_at_least(first: str, second: str) -> Rule:
    sentence = f"this block has neither {first} nor {second}; give one of them"
    return Rule(f"has(self.{first}) || has(self.{second})", sentence)


def _given(key: str, else_: str) -> str:
    return f"(has(self.{key}) ? self.{key} : {else_})"


_NO_FILES = Rule("has(self.kafka) || !has(self.files)", f"this block {'; '.join(FILES)}")


def _first(holds: str, value: str) -> str:
    """Of the sources, by {0}: what `value` is of the first one of which `holds`, which there is. One by one: of what
    is picked out of a list the server knows no length, and takes the worst."""
    sources = [f"self.sources[{n}]" for n in range(SOURCES_MAX)]
    found = (
        f"self.sources.size() > {n} && {holds.format(source, n)} ? {value.format(source)} : "
        for n, source in enumerate(sources[:-1])
    )
    return f"({''.join(found)}{value.format(sources[-1])})"


_STOOD_BEFORE = (
    f"[{', '.join(map(str, range(SOURCES_MAX)))}].exists(i, i < {{1}} && self.sources[i].name.lowerAscii() == "
)
_TWIN = _first(_STOOD_BEFORE + "{0}.name.lowerAscii())", "{0}.name")
_OTHER_SERVERS = _first(
    "has({0}.kafka) && {0}.kafka.bootstrapServers != self.output.kafka.bootstrapServers", "{0}.kafka.bootstrapServers"
)
_DURABLE = "has(self.state.durable) && (has(self.state.durable.s3) || has(self.state.durable.volume))"

_TARGET = _given("target", "0.6")

ON_A_CLUSTER = (
    Rule(
        "!has(self.output.kafka) || self.sources.all(s, !has(s.kafka) || "
        "s.kafka.bootstrapServers == self.output.kafka.bootstrapServers)",
        "; ".join(BROKERS),
        f"{quoted(BROKERS[0] + ': ')} + {_OTHER_SERVERS} + ' and ' + self.output.kafka.bootstrapServers + "
        f"{quoted('; ' + BROKERS[1])}",
    ),
    Rule(
        f"has(self.state) && (has(self.state.redis) || ({_DURABLE}))",
        "; ".join(STORE),
    ),
)

OF_BLOCKS: dict[str, tuple[Rule, ...]] = {
    "WindowSpec": (_not_both("time", "tuples"), _one_at_least("time", "tuples")),
    "SourceSpec": (_not_both("kafka", "files"), _one_at_least("kafka", "files"), _NO_FILES),
    "OutputSpec": (_not_both("kafka", "files"), _one_at_least("kafka", "files"), _NO_FILES),
    "DurableSpec": (_not_both("s3", "volume"),),
    "JoinersSpec": (
        Rule(
            f"{_given('minReplicas', '1')} <= {_given('replicas', '1')} && "
            f"(!has(self.maxReplicas) || {_given('replicas', '1')} <= self.maxReplicas)",
            "this block does not have minReplicas <= replicas <= maxReplicas; put the three in order",
        ),
    ),
    "ScalingSpec": (
        Rule(
            f"{_given('low', '0.3')} < {_TARGET} && {_TARGET} < {_given('high', '0.8')}",
            "this block does not have low < target < high; put the three in order",
        ),
        Rule(
            "!has(self.period) || self.period.find('[1-9]') != ''",
            "this block has a period of zero; write one such as 1m",
        ),
    ),
    "Spec": (
        Rule(
            "self.sources.all(a, self.sources.exists_one(b, b.name.lowerAscii() == a.name.lowerAscii()))",
            "a source stands twice; rename one, or use an alias in the SQL",
            f"'the source ' + {_TWIN} + ' stands twice; rename one, or use an alias in the SQL'",
        ),
        *ON_A_CLUSTER,
    ),
    "JoinQuery": (
        Rule(
            f"self.metadata.name.matches({quoted(DNS_LABEL)})",
            f"the name does not have the form of this key; {FORMS[DNS_LABEL]}",
            f"'`' + self.metadata.name + {quoted('` does not have the form of this key; ' + FORMS[DNS_LABEL])}",
        ),
        *ONCE_BEGUN,
    ),
    "JoinSubgroupSpec": NEVER_IN_A_SUBGROUP,
}
