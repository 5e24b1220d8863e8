"""Whether a unit is observed: only where the standard settings ask for telemetry. Else its effects go straight to their
performer, and nothing of telemetry is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from biclique.plan.model import Plan
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_settings import open_telemetry
from biclique.tiers.effects import Effect
from biclique.tiers.loops import Watch

Perform = Callable[[Effect], Any]


@contextmanager
def observing(perform: Perform, plan: Plan, tier: str, unit: str, attempt: int, watch: Watch) -> Iterator[Perform]:
    telemetry = open_telemetry(os.environ, Identity(plan.query.name, tier, unit, attempt))
    if telemetry is None:
        yield perform
        return
    from biclique.hosts.units.observed import Observed

    try:
        yield Observed(perform, telemetry, plan, tier, watch, attempt)
    finally:
        telemetry.close()
