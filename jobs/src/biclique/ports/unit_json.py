"""A unit's name as a JSON value: wherever progress, manifests and routing tables name one."""

from __future__ import annotations

from typing import Any

from biclique.routing.table import Subgroup, UnitId


def encode_unit(unit: UnitId) -> list[Any]:
    return [list(unit.subgroup), unit.number, unit.generation]


def decode_unit(values: list[Any]) -> UnitId:
    subgroup, number, generation = values
    return UnitId(Subgroup(*subgroup), number, generation)
