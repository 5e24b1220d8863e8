"""What a status shows of how much and how fast: numbers for tools, and texts for the columns of `kubectl get`.

Figures change all the time, and each writing is one to everybody who watches. So they are rounded, which makes a steady
load a steady status, and written now and then, or when something else is written anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from biclique.plan.amounts import number, size
from biclique_operator.observed import Figures, Raw, seconds_of, timestamp_of

EVERY_S = 30.0
CHECKPOINT_STEP_S = 60
KEYS = ("figures", "rate", "lag", "state")
UNITS = {"unitsWanted", "unitsRunning"}


def figures_of(reading: Sequence[Figures], keeping: Sequence[Figures], run: int, wanted: int) -> Raw:
    """`reading`: of whoever tells what comes in. `keeping`: of whoever holds state."""
    ages = [each.checkpoint_age_s for each in keeping if each.checkpoint_age_s is not None]
    loads = [each.load for each in keeping if each.load is not None]
    found: Raw = {
        "unitsWanted": wanted,
        "unitsRunning": run,
        "rateRowsPerSecond": _rounded(_sum(each.rate_rows_s for each in reading)),
        "lagRows": _rounded(_sum(each.lag_rows for each in reading)),
        "stateRows": _rounded(_sum(each.state_rows for each in keeping)),
        "stateBytes": _rounded(_sum(each.state_bytes for each in keeping)),
        "checkpointAgeSeconds": _rounded(max(ages, default=None), CHECKPOINT_STEP_S),
        "load": round(max(loads), 1) if loads else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def shown(found: Raw, before: Raw, written_anyway: bool, now: float) -> Raw:
    """`before`: the status that stands there. As it stands, until it is due."""
    kept: Raw = {key: before[key] for key in KEYS if key in before}
    stood = kept.get("figures") or {}
    due_at = (seconds_of(stood.get("at")) or 0.0) + EVERY_S
    if now < due_at and not written_anyway:
        return kept
    if not found.keys() - UNITS or found == {key: value for key, value in stood.items() if key != "at"}:
        return kept  # whoever has just begun knows nothing of it yet
    texts: Raw = {"figures": {**found, "at": timestamp_of(now)}}
    if "rateRowsPerSecond" in found:
        texts["rate"] = f"{number(found['rateRowsPerSecond'])}/s"
    if "lagRows" in found:
        texts["lag"] = number(found["lagRows"])
    if "stateBytes" in found:
        texts["state"] = size(found["stateBytes"])
    return texts


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _rounded(value: float | None, step: int = 1) -> int | None:
    """To two digits, or whole steps."""
    if value is None:
        return None
    whole = round(value)
    digits = max(0, len(str(whole)) - 2)
    return round(whole, -digits) if step == 1 else whole // step * step
