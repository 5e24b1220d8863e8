"""The control port in a real Kubernetes API: what is written there, who may, and what holds while the API is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from biclique.ports.control import Condition, Pause, State
from biclique.ports.control_kubernetes import STOP, ControlKubernetes
from biclique.ports.controls import open_control
from biclique.ports.refusals import Refused, Unreachable
from tests.chaos.relay import Relay, Way
from tests.conformance.test_control import seen, version

UNIT = "joiner 0L0.0"


@pytest.fixture
def api(kubernetes_api: Path) -> client.CoreV1Api:
    return client.CoreV1Api(config.new_client_from_config(str(kubernetes_api)))


@pytest.fixture
def control(routing_config_map: str) -> Iterator[ControlKubernetes]:
    with closing(open_control(routing_config_map)) as made:
        assert isinstance(made, ControlKubernetes)
        yield made


def name_of(place: str) -> str:
    return place.rpartition("/")[2]


def test_what_is_written(control: ControlKubernetes, api: client.CoreV1Api, routing_config_map: str) -> None:
    control.publish(version(0))
    control.note("what it was")
    control.next_attempt(UNIT)
    control.pause("a/ü_b", Pause("why"))
    control.tell(UNIT, Condition(State.STANDS, "no room"))
    found = api.read_namespaced_config_map(name_of(routing_config_map), "default").data
    assert set(found) == {
        "table.0",
        "began",
        "attempt.joiner_200L0.0",
        "paused.a_2F_C3_BC_5Fb",
        "condition.joiner_200L0.0",
    }
    assert found["attempt.joiner_200L0.0"] == "1"


def test_what_is_so_already_is_not_written_again(
    control: ControlKubernetes, api: client.CoreV1Api, routing_config_map: str
) -> None:
    def written() -> str:
        return str(api.read_namespaced_config_map(name_of(routing_config_map), "default").metadata.resource_version)

    control.publish(version(0))
    control.pause("a", Pause("why"))
    control.tell(UNIT, Condition(State.STANDS, "no room"))
    before = written()
    control.publish(version(0))
    control.pause("a", Pause("another"))
    control.resume("b")
    control.tell(UNIT, Condition(State.STANDS, "no room"))
    control.tell("joiner 0R0.0", None)
    assert written() == before


def test_the_operators_annotation_stops_the_query(
    control: ControlKubernetes, api: client.CoreV1Api, routing_config_map: str
) -> None:
    def annotate(value: str | None) -> None:
        body: dict[str, Any] = {"metadata": {"annotations": {STOP: value}}}
        api.patch_namespaced_config_map(name_of(routing_config_map), "default", body)

    assert not control.stopping()
    annotate("true")
    assert seen(control.stopping, True)
    annotate(None)
    assert seen(control.stopping, False)


def test_a_config_map_that_is_not_there_is_waited_for_and_a_missing_right_is_not(
    routing_config_map: str, api: client.CoreV1Api
) -> None:
    with closing(open_control("kubernetes:default/no-such-map")) as missing:
        assert not missing.stopping()
        with pytest.raises(Unreachable, match=r"^ConfigMap default/no-such-map is not there; the operator makes it$"):
            missing.table(None)
        with pytest.raises(Unreachable, match=r"is not there"):
            missing.next_attempt(UNIT)
    api.api_client.set_default_header("Impersonate-User", "system:serviceaccount:default:nobody")
    with (
        closing(ControlKubernetes(api, "default", name_of(routing_config_map))) as forbidden,
        pytest.raises(Refused, match=r"the service account may not do this: give it get, list, watch and patch$"),
    ):
        forbidden.next_attempt(UNIT)


def test_with_the_api_away_what_is_known_holds_and_nobody_waits(routing_config_map: str, kubernetes_cut: Relay) -> None:
    with closing(open_control(routing_config_map)) as control:
        control.publish(version(0))
        assert control.next_attempt(UNIT) == 1
        assert control.table(None) == version(0)
        kubernetes_cut.cut(Way.BOTH)
        assert took(lambda: [(control.table(None), control.stopping(), control.attempts(UNIT)) for _ in range(100)]) < 3
        assert control.table(None) == version(0)
        assert control.attempts(UNIT) == 1
        stands = Condition(State.STANDS, "no room")
        assert took(lambda: control.tell(UNIT, stands)) < 10
        with pytest.raises(Unreachable, match=r"^the Kubernetes API does not answer"):
            control.next_attempt(UNIT)
        kubernetes_cut.heal()
        assert seen_within(60, lambda: control.conditions() == {UNIT: stands}), "it is told when it can be"
        assert control.next_attempt(UNIT) > 1


def test_what_others_wrote_while_the_api_was_away_is_seen_when_it_is_back(
    routing_config_map: str, kubernetes_api: Path, kubernetes_cut: Relay
) -> None:
    with closing(open_control(routing_config_map)) as control:
        assert control.table(None) is None
        kubernetes_cut.cut(Way.BOTH)
        direct = client.CoreV1Api(config.new_client_from_config(str(kubernetes_api)))
        with closing(ControlKubernetes(direct, "default", name_of(routing_config_map))) as other:
            other.publish(version(0))
        kubernetes_cut.heal()
        assert seen_within(60, lambda: control.table(None) == version(0))


def took(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began


def seen_within(seconds: float, look: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
