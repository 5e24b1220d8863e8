"""A routing table as JSON: what the control port keeps, in a folder or in a ConfigMap."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from biclique.ports.unit_json import decode_unit, encode_unit
from biclique.routing.table import Move, RoutingTable, Subgroup, UnitId


def encode_table(table: RoutingTable) -> str:
    return json.dumps(
        {
            "version": table.version,
            "stores": _groups(table.stores),
            "probes": _groups(table.probes),
            "switch": sorted(table.switch.items()),
            "moves": [[encode_unit(move.source), encode_unit(move.target), move.version] for move in table.moves],
            "stage_switch": sorted([*key, epoch] for key, epoch in table.stage_switch.items()),
            "born": [[encode_unit(unit), version] for unit, version in sorted(table.born.items())],
        },
        separators=(",", ":"),
    )


def decode_table(text: str) -> RoutingTable:
    values = json.loads(text)
    return RoutingTable(
        values["version"],
        _groups_of(values["stores"]),
        _groups_of(values["probes"]),
        dict(values["switch"]),
        tuple(Move(decode_unit(source), decode_unit(target), version) for source, target, version in values["moves"]),
        {(version, stage): epoch for version, stage, epoch in values["stage_switch"]},
        {decode_unit(unit): version for unit, version in values["born"]},
    )


def _groups(groups: Mapping[Subgroup, tuple[UnitId, ...]]) -> list[Any]:
    return [[list(subgroup), [encode_unit(unit) for unit in units]] for subgroup, units in sorted(groups.items())]


def _groups_of(values: list[Any]) -> dict[Subgroup, tuple[UnitId, ...]]:
    return {Subgroup(*subgroup): tuple(decode_unit(unit) for unit in units) for subgroup, units in values}
