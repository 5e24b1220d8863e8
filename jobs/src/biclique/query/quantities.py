"""Durations, memory and processor shares in a manifest, as pydantic types: text outside, whole numbers inside.

A ValueError's text is the middle of a sentence that begins with what was written; complaints.py says the rest. In the
JSON schema each says by its name which of the three it is: no type of JSON's tells it.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from biclique.query.moments import duration_us

QUANTITY = "x-biclique-quantity"
_BYTES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 1 << 10,
    "Mi": 1 << 20,
    "Gi": 1 << 30,
    "Ti": 1 << 40,
}
_MEMORY_MIN, _MEMORY_MAX = 1 << 20, 1 << 50


def _duration(written: object) -> int:
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        raise ValueError("is no duration; write a number and a unit, such as 10m (units: ms, s, m, h, d)")
    result = duration_us(str(written))
    if isinstance(result, str):
        raise ValueError(f"{result}; write a duration such as 10m (units: ms, s, m, h, d)")
    return result


def _memory(written: object) -> int:
    found = re.fullmatch(r"(\d{1,15}(?:\.\d{1,3})?)([A-Za-z]*)", str(written), re.ASCII)
    if isinstance(written, bool) or found is None or found[2] not in _BYTES:
        raise ValueError("is no amount of memory; write one such as 512Mi or 2Gi")
    amount = int(Decimal(found[1]) * _BYTES[found[2]])
    if not _MEMORY_MIN <= amount <= _MEMORY_MAX:
        raise ValueError("is not between 1Mi and 1024Ti; write one such as 512Mi or 2Gi")
    return amount


def _cpu(written: object) -> int:
    found = re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)(m?)", str(written), re.ASCII)
    if isinstance(written, bool) or found is None:
        raise ValueError("is no share of a processor; write one such as 500m or 2")
    share = int(Decimal(found[1]) * (1 if found[2] else 1000))
    if share < 1:
        raise ValueError("is no share of a processor; write one such as 500m or 2")
    return share


Duration = Annotated[
    int,
    BeforeValidator(_duration),
    Field(description="A number and a unit (ms, s, m, h, d), such as 10m."),
    WithJsonSchema({"type": "string", QUANTITY: "duration"}),
]
Memory = Annotated[
    int,
    BeforeValidator(_memory),
    Field(description="Bytes, with an optional unit, such as 2Gi."),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], QUANTITY: "memory"}),
]
Cpu = Annotated[
    int,
    BeforeValidator(_cpu),
    Field(description="Processors, or thousandths of one with m, such as 500m."),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string"}], QUANTITY: "cpu"}),
]
