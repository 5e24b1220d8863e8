"""What a unit shows of itself for whoever looks at the query now: a few numbers, as they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Figures:
    """None: not known, or not of this tier. `lag_rows`: an estimate, except of a source. `load`: see
    hosts/units/load.py."""

    rate_rows_s: float | None = None
    lag_rows: int | None = None
    state_rows: int | None = None
    state_bytes: int | None = None
    checkpoint_age_s: float | None = None
    load: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """`epoch`: how far the unit has come; None: nowhere yet. `turned_s`: since its loop last began a turn; None: it has
    not begun the first. `awaits`: who is to answer before the turn goes on; empty: nobody."""

    epoch: int | None = None
    turned_s: float | None = None
    figures: Figures = Figures()
    awaits: str = ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(values: dict[str, Any]) -> Report:
        known = {field.name for field in fields(Figures)}
        figures = Figures(**{name: value for name, value in values["figures"].items() if name in known})
        return Report(values["epoch"], values["turned_s"], figures, values.get("awaits", ""))


ReadReport = Callable[[], Report]

ADDED = ("rate_rows_s", "lag_rows", "state_rows", "state_bytes")


def sums(all_figures: list[Figures]) -> Figures:
    """Of a tier: rates, lags and state add up; of age and load the greatest is what somebody must look at."""

    def known(name: str) -> list[Any]:
        return [value for figures in all_figures if (value := getattr(figures, name)) is not None]

    added = {name: sum(known(name)) if known(name) else None for name in ADDED}
    greatest = {name: max(known(name), default=None) for name in ("checkpoint_age_s", "load")}
    return Figures(**added, **greatest)
