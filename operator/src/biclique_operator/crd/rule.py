"""One rule of the Common Expression Language, as a custom resource definition has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Rule:
    """`told`: the sentence as an expression, where it quotes what was written."""

    holds: str
    sentence: str
    told: str = ""
    place: str = ""


def rendered(rule: Rule) -> dict[str, Any]:
    found = {"rule": rule.holds, "message": rule.sentence}
    if rule.told:
        found["messageExpression"] = rule.told
    if rule.place:
        found["fieldPath"] = rule.place
    return found


def quoted(text: str) -> str:
    """As the language writes a text."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
