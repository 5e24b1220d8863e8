"""The API does not let go of what is not wanted any more: that is said, and holds up nothing else."""

from __future__ import annotations

from contextlib import suppress

import pytest

from biclique_operator.cluster import Refused, Unreachable
from tests.operator.stage import Stage
from tests.operator.test_life import delete, is_gone


def keep(stage: Stage, trouble: Exception) -> None:
    def kept(verb: str, kind: str, name: str) -> None:
        if (verb, kind) == ("remove", "Pod"):
            raise trouble

    stage.cluster.before_write = kept


def with_a_past() -> Stage:
    """Its third shuffler runs, and when that ends the log of the second one is kept no longer."""
    stage = Stage().is_running()
    for attempt in (1, 2):
        stage.kubelet.ends(stage.pods()[f"shuffler-{attempt}"], 4, "it fails")
        stage.settle()
        stage.passes(10)
    return stage


@pytest.mark.parametrize("trouble", [Refused(403, "admission denied"), Unreachable("failed calling webhook")])
def test_a_query_goes_though_its_pods_may_not_be_removed(trouble: Exception) -> None:
    stage = Stage().is_running()
    delete(stage)
    keep(stage, trouble)
    began = stage.clock()
    while not is_gone(stage) and stage.clock() < began + 60:
        with suppress(Unreachable):
            stage.operator.look(stage.key)
        stage.clock.passes(2)
    assert is_gone(stage)


def test_a_pod_that_may_not_be_removed_is_named_once_and_keeps_no_other_from_coming_back() -> None:
    stage = with_a_past()
    keep(stage, Refused(403, "admission denied"))
    stage.kubelet.ends(stage.pods()["shuffler-3"], 4, "it fails")
    for _ in range(4):
        stage.operator.look(stage.key)
        stage.clock.passes(20)
    stage.run_pods()
    stage.operator.look(stage.key)
    assert "shuffler-4" in stage.pods()
    assert stage.condition("Ready")[0] == "True"
    said = stage.condition("Degraded")
    assert said[:2] == ("True", "RemovalRefused")
    assert "is not wanted any more, and may not be removed (403): admission denied" in said[2]
    assert stage.reasons().count("RemovalRefused") == 1
    assert "DriverStopped" not in stage.reasons()[-3:], "it was not"
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("False", "NothingAmiss")
    assert "shuffler-1" not in stage.pods()


def test_a_removal_that_is_not_answered_keeps_nothing_from_being_said() -> None:
    stage = with_a_past()
    stage.run_pods()
    stage.settle()
    keep(stage, Unreachable("failed calling webhook"))
    stage.kubelet.ends(stage.pods()["shuffler-3"], 4, "it fails once more")
    for _ in range(4):
        with suppress(Unreachable):
            stage.operator.look(stage.key)
        stage.clock.passes(20)
    assert stage.driver("shuffler")["why"] == "it fails once more"
    assert any("it fails once more" in message for reason, message in stage.events() if reason == "DriverFailed")
    assert "shuffler-4" in stage.pods()


def test_it_is_asked_for_more_and_more_rarely() -> None:
    stage = with_a_past()
    keep(stage, Refused(403, "admission denied"))
    stage.kubelet.ends(stage.pods()["shuffler-3"], 4, "it fails")
    waits = []
    for _ in range(40):
        again_s = stage.operator.look(stage.key)
        assert again_s is not None
        waits.append(again_s)
        stage.run_pods()
        stage.clock.passes(again_s)
    assert waits[-1] > 30.0, waits


def test_a_query_that_cannot_rest_for_it_says_so() -> None:
    stage = Stage().is_running()
    keep(stage, Refused(403, "admission denied"))
    stage.change(suspend=True)
    for _ in range(4):
        stage.operator.look(stage.key)
        stage.clock.passes(30)
    assert stage.condition("Suspended")[:2] == ("False", "Stopping")
    assert stage.condition("Degraded")[:2] == ("True", "RemovalRefused")
