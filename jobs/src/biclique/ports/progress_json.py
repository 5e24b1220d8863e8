"""Progress as JSON values: what the state file of a run and an offset commit in Kafka hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from biclique.ports.unit_json import decode_unit, encode_unit
from biclique.tiers.progress import (
    Cursor,
    DispatcherProgress,
    JoinerProgress,
    MergerCursor,
    MergerProgress,
    Progress,
    SourcePartition,
    TrimProgress,
)


def encode_progress(progress: Progress) -> dict[str, Any]:
    match progress:
        case DispatcherProgress():
            return {
                "kind": "dispatcher",
                "offset": progress.offset,
                "epoch": progress.epoch,
                "watermark": progress.watermark,
                "version": progress.version,
                "first_epoch": progress.first_epoch,
                "last": [[*key, value] for key, value in progress.last.items()],
                "greatest": [[*key, value] for key, value in progress.greatest.items()],
                "fates": {fate: list(counts) for fate, counts in progress.fates.items()},
                "counted": list(progress.counted),
                "hear_from": progress.hear_from,
            }
        case JoinerProgress():
            return {
                "kind": "joiner",
                "offset": progress.offset,
                "frontier": progress.frontier,
                "watermark": progress.watermark,
                "cursor": None if progress.cursor is None else list(progress.cursor),
                "empty": progress.empty,
                "senders": [encode_unit(unit) for unit in progress.senders],
                "version": progress.version,
                "first_epoch": progress.first_epoch,
                "lower": progress.lower,
                "read_to": progress.read_to,
                "counted": list(progress.counted),
                "failed": progress.failed,
                "heard": progress.heard,
            }
        case MergerProgress():
            return {
                "kind": "merger",
                "offset": progress.offset,
                "frontier": progress.frontier,
                "watermark": progress.watermark,
                "senders": [encode_unit(unit) for unit in progress.senders],
                "cursor": _merger_cursor(progress.cursor),
                "read_to": progress.read_to,
                "heard": progress.heard,
            }
        case TrimProgress():
            return {"kind": "trimmer", "before": progress.before}


def decode_progress(values: Mapping[str, Any]) -> Progress:
    values = dict(values)
    kind = values.pop("kind")
    if kind == "dispatcher":
        values["last"] = {SourcePartition(*key): value for *key, value in values["last"]}
        values["greatest"] = {SourcePartition(*key): value for *key, value in values["greatest"]}
        values["fates"] = {fate: tuple(counts) for fate, counts in values["fates"].items()}
        values["counted"] = tuple(values["counted"])
        return DispatcherProgress(**values)
    if kind == "joiner":
        cursor = values["cursor"]
        if cursor is not None:
            probe_stamp, probe_ids, stored_stamp, stored_ids = cursor
            values["cursor"] = Cursor(probe_stamp, tuple(probe_ids), stored_stamp, tuple(stored_ids))
        values["senders"] = tuple(decode_unit(unit) for unit in values["senders"])
        values["counted"] = tuple(values["counted"])
        return JoinerProgress(**values)
    if kind == "trimmer":
        return TrimProgress(**values)
    assert kind == "merger", kind
    values["senders"] = tuple(decode_unit(unit) for unit in values["senders"])
    if values["cursor"] is not None:
        frontier, time, high, low, *watermark = values["cursor"]  # an older one has none
        values["cursor"] = MergerCursor(frontier, (time, high, low), *watermark)
    return MergerProgress(**values)


def _merger_cursor(cursor: MergerCursor | None) -> list[int] | None:
    return None if cursor is None else [cursor.frontier, *cursor.place, cursor.watermark]
