"""Stories drawn at random: pods that run, end, and are taken away; edits, kills of the operator in the middle of its
writes. Whatever happens, no name of a pod comes twice, no driver runs twice once things have settled, and when people
and nodes leave it alone the query runs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.operator.manifests import spec
from tests.operator.scenes import Killed, killed_at
from tests.operator.stage import Operator, Stage

DRIVERS = ("shuffler", "dispatcher", "joiner-0l0", "joiner-0r0")
EDITS: tuple[dict[str, Any], ...] = (
    {"delivery": "atLeastOnce"},
    {"delivery": "exactlyOnce"},
    {"joiners": {"memory": "3Gi"}},
    {"sql": "SELECT"},
    {"sql": spec()["sql"]},
    {"sql": spec()["sql"].replace("10 MINUTES", "11 MINUTES")},
    {"suspend": True},
    {"suspend": False},
)
steps = st.one_of(
    st.tuples(st.just("runs"), st.sampled_from(DRIVERS)),
    st.tuples(st.just("ends"), st.sampled_from(DRIVERS), st.sampled_from((0, 2, 4, 5, 137))),
    st.tuples(st.just("is taken away"), st.sampled_from(DRIVERS)),
    st.tuples(st.just("edit"), st.sampled_from(EDITS)),
    st.tuples(st.just("passes"), st.sampled_from((1, 10, 60, 700))),
    st.tuples(st.just("is killed"), st.integers(0, 8)),
    st.tuples(st.just("looks"), st.just(1)),
)


class Story(Stage):
    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}
        self.is_running()

    def do(self, step: tuple[Any, ...]) -> None:
        match step:
            case ("runs", driver):
                if (pod := self._alive(driver)) is not None:
                    self.kubelet.runs(pod)
            case ("ends", driver, code):
                if (pod := self._alive(driver)) is not None:
                    self.kubelet.ends(pod, code, f"exit {code}")
            case ("is taken away", driver):
                if (pod := self._alive(driver)) is not None:
                    self.cluster.remove("Pod", "default", pod["metadata"]["name"], pod["metadata"]["uid"])
            case ("edit", change):
                self.change(**change)
            case ("passes", seconds):
                self.clock.passes(seconds)
            case ("is killed", number):
                self.cluster.before_write, _ = killed_at(number, Killed)
                with suppress(Killed):
                    self.operator.look(self.key)
                self.cluster.before_write = lambda verb, kind, name: None
                self.operator = Operator(self.cluster, self.clock)
            case ("looks", _):
                self.operator.look(self.key)
        self.hold()

    def _alive(self, driver: str) -> dict[str, Any] | None:
        found = [name for name in self.alive() if name.rpartition("-")[0] == driver]
        return self.pods()[max(found, key=lambda name: int(name.rpartition("-")[2]))] if found else None

    def hold(self) -> None:
        for name, pod in self.pods().items():
            uid = pod["metadata"]["uid"]
            assert self.names.setdefault(name, uid) == uid, f"{name} came twice"

    def hold_when_settled(self) -> None:
        alive = [name.rpartition("-")[0] for name in self.alive()]
        assert len(alive) == len(set(alive)), "a driver runs twice"
        running = {
            name.rpartition("-")[0]
            for name, pod in self.pods().items()
            if any(c["type"] == "Ready" and c["status"] == "True" for c in pod.get("status", {}).get("conditions", ()))
        }
        suspended = self.operator.query(self.key)["spec"].get("suspend") is True
        assert (self.condition("Ready")[0] == "True") == (running == set(DRIVERS) and not suspended)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(steps, max_size=14))
def test_whatever_happens_it_comes_to_rest_and_runs_again(story: list[tuple[Any, ...]]) -> None:
    stage = Story()
    for step in story:
        stage.do(step)
    stage.settle()
    stage.hold()
    stage.hold_when_settled()
    stage.change(**{**spec(), "suspend": False, "delivery": "exactlyOnce", "joiners": None})
    for _ in range(12):
        stage.passes(400)
        stage.run_pods()
        stage.settle()
        stage.hold()
    stage.hold_when_settled()
    assert stage.condition("Ready")[0] == "True"
    assert stage.condition("Degraded")[0] == "False"
    assert stage.condition("Progressing")[:2] == ("False", "Stable")
