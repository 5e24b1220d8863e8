"""When a unit is asked for a checkpoint, with a clock by hand."""

from __future__ import annotations

import pytest

from biclique.hosts.units.checkpoints import BACKOFF_MAX_S, Checkpoints
from biclique.tiers.effects import BlobsLost, Publication

LOST = BlobsLost(frozenset({"a"}))


class Hand:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def seconds_until_due(checkpoints: Checkpoints, clock: Hand) -> int:
    began = clock.now
    while not checkpoints.due():
        clock.now += 1
    return round(clock.now - began)


def test_one_is_due_after_each_interval() -> None:
    clock = Hand()
    checkpoints = Checkpoints(10.0, clock)
    for _ in range(3):
        assert seconds_until_due(checkpoints, clock) == 10
        checkpoints.answered(True)
        assert checkpoints.due(), "a blob is not yet a checkpoint"
        checkpoints.answered(Publication.PUBLISHED)


@pytest.mark.parametrize("refusal", [False, Publication.UNAVAILABLE])
def test_a_store_that_takes_nothing_is_asked_more_and_more_rarely(refusal: bool | Publication) -> None:
    clock = Hand()
    checkpoints = Checkpoints(10.0, clock)
    waited = []
    for _ in range(6):
        waited.append(seconds_until_due(checkpoints, clock))
        checkpoints.answered(refusal)
    assert waited == [10, 20, 40, 80, BACKOFF_MAX_S, BACKOFF_MAX_S]
    clock.now += BACKOFF_MAX_S
    checkpoints.answered(Publication.PUBLISHED)
    assert seconds_until_due(checkpoints, clock) == 10, "it works again"


def test_lost_blobs_are_given_anew_at_once_and_a_store_that_goes_on_losing_them_is_not_fed_for_ever() -> None:
    clock = Hand()
    checkpoints = Checkpoints(10.0, clock)
    waited = []
    for _ in range(4):
        waited.append(seconds_until_due(checkpoints, clock))
        checkpoints.answered(True)
        checkpoints.answered(LOST)
    assert waited == [10, 0, 40, 80]
