"""Whether a unit is observed: where the standard settings ask for telemetry, or somebody looks at its driver's status.
Else its effects go straight to their performer, and nothing of telemetry is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from biclique.plan.model import Plan
from biclique.ports.reports import ReadReport
from biclique.ports.telemetry import Identity
from biclique.ports.telemetry_settings import open_telemetry
from biclique.tiers.effects import Effect
from biclique.tiers.loops import Watch

Perform = Callable[[Effect], Any]


def nobody_looks(read: ReadReport) -> bool:
    return False


@contextmanager
def observing(
    perform: Perform,
    plan: Plan,
    tier: str,
    unit: str,
    attempt: int,
    watch: Watch,
    show: Callable[[ReadReport], bool] = nobody_looks,
) -> Iterator[Perform]:
    """`show`: is given what reads how the unit stands; whether anybody does."""
    telemetry = open_telemetry(os.environ, Identity(plan.query.name, tier, unit, attempt))
    if telemetry is None:
        from biclique.hosts.units.standing import Standing

        standing = Standing(plan, tier, watch)
        yield standing.following(perform) if show(standing.report) else perform
        return
    from biclique.hosts.units.observed import Observed

    observed = Observed(perform, telemetry, plan, tier, watch, attempt)
    show(observed.standing.report)
    try:
        yield observed
    except BaseException as error:
        observed.end(str(error) or type(error).__name__)  # a start that fails is what a trace is looked at for
        raise
    else:
        observed.end("")
    finally:
        telemetry.close()
