"""What people are told of, once for each decision: a driver that begins or is taken away, a condition that turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from biclique_operator.desired.drivers import Driver
from biclique_operator.observed import Raw
from biclique_operator.policies import reasons
from biclique_operator.policies.attempts import Attended

CALM = {
    reasons.STARTING,
    reasons.ROLLING,
    reasons.RUNNING,
    reasons.IS_SUSPENDED,
    reasons.DELETING,
    reasons.NOTHING_AMISS,
}


@dataclass(frozen=True, slots=True)
class Event:
    """Of a JoinQuery."""

    warning: bool
    reason: str
    message: str


def taken_away(pod: str, why: str) -> Event:
    return Event(False, reasons.DRIVER_STOPPED, f"{pod} is taken away: {why}")


def events_of_drivers(
    every: Iterable[tuple[Driver, Attended]], create: tuple[Raw, ...], refusals: Mapping[str, tuple[int, str]]
) -> Iterator[tuple[str, Event]]:
    """By the pods that they are about."""
    made = {one["metadata"]["name"] for one in create} - refusals.keys()
    for driver, attended in every:
        for pod, why in attended.take_away:
            yield pod.name, taken_away(pod.name, why)
        for name in made:
            if name.endswith(f"-{driver.name.lower()}-{attended.start}"):
                said = f"attempt {attended.start} of {driver.name} begins"
                why_again = f"; before it: {attended.record.why}" if attended.record.why else ""
                yield name, Event(False, reasons.DRIVER_STARTED, said + why_again)


def events_of_conditions(before: Raw, after: Raw) -> Iterator[Event]:
    """One for each that has turned, and for each new reason of one that is not well."""
    stood = {one.get("type"): one for one in before.get("conditions") or ()}
    amiss = {one["reason"] for one in after["conditions"] if one["type"] == reasons.DEGRADED}
    for one in after["conditions"]:
        if one["type"] == reasons.READY and one["reason"] in amiss:
            continue  # Degraded says it
        was = stood.get(one["type"]) or {}
        same = was.get("status") == one["status"] and was.get("reason") == one["reason"]
        if same or (one["type"] not in (reasons.READY, reasons.DEGRADED, reasons.SUSPENDED, reasons.SCALING_ACTIVE)):
            continue
        quiet = not was and one["reason"] in (
            reasons.NOTHING_AMISS,
            reasons.NOT_SUSPENDED,
            reasons.FIXED,
            reasons.STARTING,
        )
        if not quiet:
            bad = (one["type"] == reasons.DEGRADED) == (one["status"] == "True")
            warning = bad and one["type"] in (reasons.READY, reasons.DEGRADED) and one["reason"] not in CALM
            yield Event(warning, one["reason"], f"{one['type']} is {one['status']}: {one['message']}")
