"""Which drivers are started anew because they are not what they are to be: all at once those that are no use as they
are, of those that run one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

from biclique_operator.desired.driver_pod import pod_name
from biclique_operator.desired.drivers import Driver
from biclique_operator.observed import Observed
from biclique_operator.policies.attempts import Attended, Phase

UNSCHEDULABLE = "Unschedulable"  # as the scheduler says it


def outdated_of(
    drivers: tuple[Driver, ...], attended: Mapping[str, Attended], hashes: Mapping[str, str], image: str, secrets: int
) -> frozenset[str]:
    """`image`: of those whose part of the manifest names none. `secrets`: see QueryName."""
    return frozenset(
        driver.name
        for driver in drivers
        if _is_outdated(attended[driver.name], hashes[driver.name])
        or _waits_for_another(attended[driver.name], driver.pods.image or image)
        or _knows_no_new_executor(driver, attended[driver.name], secrets)
    )


def stuck_of(
    observed: Observed,
    drivers: tuple[Driver, ...],
    attended: Mapping[str, Attended],
    refusals: Mapping[str, tuple[int, str]],
) -> frozenset[str]:
    """Those that cannot begin for want of room: no pod of theirs was taken, or it finds no place."""

    def is_stuck(driver: Driver) -> bool:
        each = attended[driver.name]
        if each.pod is None:
            return each.start is not None and pod_name(observed.query, driver, each.start) in refusals
        return each.pod.phase == "Pending" and each.pod.trouble is not None and each.pod.trouble[0] == UNSCHEDULABLE

    return frozenset(driver.name for driver in drivers if is_stuck(driver))


def to_roll_of(
    attended: Mapping[str, Attended],
    outdated: AbstractSet[str],
    stuck: AbstractSet[str],
    makes_room: AbstractSet[str],
) -> Iterator[str]:
    """Those that run go while all others run. Some that cannot begin may wait for the very room that a change makes, so
    those go that it makes smaller; all others stay, since it may be the change that keeps the first one from
    beginning, as where it names an image that is not there."""
    left = [name for name in attended if name in outdated and attended[name].phase is not Phase.ENDING]
    useless = [name for name in left if attended[name].phase is not Phase.READY]
    waited_for = {name for name, each in attended.items() if each.phase is not Phase.READY}
    if useless:
        yield from useless
    elif not waited_for:
        yield from left[:1]
    elif waited_for <= stuck:
        yield from [name for name in left if name in makes_room][:1]


def smaller_of(observed: Observed, drivers: tuple[Driver, ...], attended: Mapping[str, Attended]) -> frozenset[str]:
    """Those that would ask less of nodes than they do."""

    def is_smaller(driver: Driver) -> bool:
        pod = attended[driver.name].pod
        if pod is None:
            return False
        held = [pod.asks, *(each.asks for each in observed.executors_of(pod.name) if each.is_there)]
        return any(then < now for then, now in zip(driver.asks, map(sum, zip(*held, strict=True)), strict=True))

    return frozenset(driver.name for driver in drivers if is_smaller(driver))


def why_rolled(driver: Driver, attended: Attended, wanted: str, secrets: int) -> str:
    """Of one that is outdated: the arguments are as there."""
    if _is_outdated(attended, wanted):
        return "its part of the manifest has changed"
    if _knows_no_new_executor(driver, attended, secrets):
        return "the Secret that it shares with its executors was lost, and is another one now"
    return "it waits for an image that is another one now"


def _is_outdated(attended: Attended, wanted: str) -> bool:
    pod = attended.pod
    return pod is not None and not pod.is_over and pod.spec_hash != wanted


def _knows_no_new_executor(driver: Driver, attended: Attended, secrets: int) -> bool:
    """It has read, or waits to mount, a Secret that was lost since."""
    pod = attended.pod
    return driver.executors > 0 and pod is not None and not pod.is_over and max(pod.secrets, 1) < secrets


def _waits_for_another(attended: Attended, image: str) -> bool:
    """One that has not begun, as where its image cannot be had, and would be made with another by now."""
    pod = attended.pod
    return pod is not None and pod.phase == "Pending" and bool(pod.image) and pod.image != image
