"""A webhook that is down lets nothing be written of some kinds: care of a query goes on, and a query that is deleted
goes."""

from __future__ import annotations

from contextlib import suppress

import pytest

from biclique_operator.cluster import Unreachable
from tests.operator.manifests import joinquery
from tests.operator.stage import Stage
from tests.operator.test_life import delete, is_gone, leftovers


def silence(stage: Stage, *kinds: str) -> None:
    """A webhook for these kinds that is down: nothing of them can be written."""

    def no_answer(verb: str, kind: str, name: str) -> None:
        if kind in kinds:
            raise Unreachable("Kubernetes answers 500: failed calling webhook")

    stage.cluster.before_write = no_answer


def settle(stage: Stage) -> None:
    """As the queue has it, which brings back what was not answered."""
    for _ in range(4):
        with suppress(Unreachable):
            return stage.settle()
    raise AssertionError("nothing is answered")


def test_a_query_goes_within_a_minute_where_a_webhook_that_is_down_takes_no_config_map() -> None:
    stage = Stage().is_running()
    began = stage.clock()
    delete(stage)
    silence(stage, "ConfigMap")
    tried = 0
    while not is_gone(stage) and stage.clock() < began + 300:
        with suppress(Unreachable):
            stage.operator.look(stage.key)
        tried += 1
        stage.clock.passes(5)
    assert stage.clock() < began + 60
    assert tried > 5, "it is asked again and again, since what is not noted is not swept"


def test_what_a_webhook_held_up_is_noted_when_it_is_back() -> None:
    stage = Stage().is_running()
    delete(stage)
    silence(stage, "ConfigMap")
    for _ in range(8):
        with suppress(Unreachable):
            stage.operator.look(stage.key)
        stage.clock.passes(5)
    assert not is_gone(stage)
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.operator.look(stage.key)
    assert is_gone(stage) and list(leftovers(stage))


def test_an_operator_that_comes_late_asks_again_too_before_it_lets_go_of_what_is_left() -> None:
    stage = Stage().is_running()
    delete(stage)
    stage.clock.passes(3600)
    silence(stage, "ConfigMap")
    for _ in range(4):
        with suppress(Unreachable):
            assert stage.operator.look(stage.key)
        stage.clock.passes(3)
    assert not is_gone(stage)
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.operator.look(stage.key)
    assert is_gone(stage) and list(leftovers(stage))


def test_an_answer_that_is_missing_once_is_no_news() -> None:
    stage = Stage().is_running()
    stood, told = stage.status, stage.events()
    for service in stage.cluster.list("Service", "default"):
        stage.cluster.remove("Service", "default", service["metadata"]["name"], service["metadata"]["uid"])
    silence(stage, "Service")
    with pytest.raises(Unreachable):
        stage.operator.look(stage.key)
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.settle()
    assert (stage.status, stage.events()) == (stood, told)
    assert stage.cluster.list("Service", "default")


def test_a_query_that_a_webhook_holds_up_says_so_and_begins_when_it_is_back() -> None:
    stage = Stage()
    stage.cluster.create(joinquery())
    silence(stage, "ConfigMap")
    settle(stage)
    assert stage.condition("Degraded")[:2] == ("True", "PodRefused")
    assert "see to the API's webhooks" in stage.condition("Degraded")[2] and not stage.pods()
    stage.cluster.before_write = lambda verb, kind, name: None
    stage.passes(30)
    stage.run_pods()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False" and stage.condition("Ready")[0] == "True"


def test_a_driver_that_ends_comes_back_though_a_webhook_holds_up_what_nothing_waits_for() -> None:
    stage = Stage().is_running()
    for service in stage.cluster.list("Service", "default"):
        stage.cluster.remove("Service", "default", service["metadata"]["name"], service["metadata"]["uid"])
    silence(stage, "Service")
    stage.kubelet.ends(stage.pods()["dispatcher-1"], 4, "no")
    settle(stage)
    stage.clock.passes(30)
    settle(stage)
    assert "dispatcher-2" in stage.pods()
