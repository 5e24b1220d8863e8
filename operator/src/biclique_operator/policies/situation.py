"""All that a status is made of, in one value: what was decided, and what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from biclique_operator.desired.drivers import Driver
from biclique_operator.observed import Observed
from biclique_operator.policies.attempts import Attended, Phase
from biclique_operator.policies.lifecycle import Course


class Mode(Enum):
    RUNS = "runs"
    SUSPENDED = "suspended"


@dataclass(frozen=True)
class Situation:
    """`attended`: of each driver that the query has, in dataflow order. `refusals`: what the API did not take,
    or let go of, pods by their names, as (code, message). `scaled`: subgroups whose `replicas` somebody has changed,
    with both numbers. `unanswered`: executors are missing, and the API has not said yet whether it would take them.
    `of_a_subgroup`: it holds what concerns one subgroup alone, whose status it is for."""

    observed: Observed
    course: Course
    mode: Mode
    attended: tuple[tuple[Driver, Attended], ...]
    rolling: frozenset[str]
    refusals: Mapping[str, tuple[int, str]]
    scaled: tuple[tuple[str, int, int], ...]
    unanswered: bool
    now: float
    of_a_subgroup: bool = False

    @property
    def not_stopped(self) -> list[str]:
        """Drivers that have not. Which there should be nobody knows without a manifest: then those that there are."""
        if self.attended:
            return [driver.name for driver, attended in self.attended if attended.phase is not Phase.STOPPED]
        return sorted({pod.driver for pod in self.observed.pods if not pod.is_over})
