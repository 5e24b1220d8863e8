"""How a driver that ended comes back: at once, later and later, or rarely; and what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from biclique.query.pod import OLD_COPY
from biclique_operator.cluster import Refused
from biclique_operator.desired.driver_pod import STARTS_S
from biclique_operator.observed import Ended
from biclique_operator.policies.restarts import (
    BUDGET,
    HEALTHY_S,
    MEND_FIRST,
    PAUSE_MAX_S,
    RARE_S,
    Record,
    Verdict,
    judged,
)
from tests.operator.stage import Stage
from tests.operator.test_troubles import warned

Raw = dict[str, Any]

FAILED = "unit 0L0.0 has failed 7 times in a row, and is not started again: No space left on device"


def end(code: int, reason: str = "", message: str = "", at: float = 1000.0) -> Ended:
    return Ended(code, reason, message, at)


def test_a_failed_driver_is_started_again_under_a_new_name() -> None:
    stage = Stage().is_running()
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 4, FAILED)
    stage.settle()
    assert stage.condition("Ready")[:2] == ("False", "DriverFailed")
    assert stage.condition("Degraded") == ("True", "DriverFailed", f"joiner-0L0: {FAILED}")
    assert stage.driver("0L0")["state"] == "Waiting"
    stage.passes(2)
    assert "joiner-0l0-2" in stage.alive()
    assert "joiner-0l0-1" in stage.pods(), "its log is what a person looks at"
    assert ("DriverStarted", f"attempt 2 of joiner-0L0 begins; before it: {FAILED}") in stage.events()
    assert stage.condition("Progressing")[:2] == ("True", "Restarting")
    stage.run_pods()
    stage.settle()
    assert stage.condition("Ready")[0] == "True"
    assert stage.condition("Degraded")[:2] == ("False", "NothingAmiss")


def test_of_ended_drivers_the_last_one_is_kept() -> None:
    stage = Stage().is_running()
    for attempt in (1, 2, 3):
        stage.kubelet.ends(stage.pods()[f"shuffler-{attempt}"], 4, "no")
        stage.settle()
        stage.passes(100)
    assert sorted(name for name in stage.pods() if name.startswith("shuffler")) == ["shuffler-3", "shuffler-4"]


def test_pauses_double_and_then_a_budget_is_spent() -> None:
    record, pauses = Record(), []
    for attempt in range(1, BUDGET + 3):
        record = judged(record, attempt, end(4), False, "pod", now=1000.0)
        pauses.append(record.retry_at - 1000.0)
    spent = [pause for pause in pauses if pause > 200]
    assert pauses[: BUDGET - 1] == sorted(pauses[: BUDGET - 1])
    assert len(spent) == 2 and all(RARE_S * 0.8 <= pause <= RARE_S * 1.2 for pause in spent)
    assert record.verdict is Verdict.SPENT


def test_a_long_healthy_run_gives_the_budget_back() -> None:
    tired = Record(attempt=6, failures=BUDGET, ready_since=1000.0)
    assert judged(tired, 6, end(4, at=1300.0), False, "pod", now=1300.0).verdict is Verdict.SPENT
    rested = judged(tired, 6, end(4, at=1700.0), False, "pod", now=1700.0)
    assert rested.verdict is Verdict.FAILED and rested.failures == 1


def test_it_does_so_though_nobody_sees_the_end_of_that_run() -> None:
    """As on a node that is lost."""
    stage = Stage().is_running()
    for attempt in range(1, BUDGET + 1):
        stage.kubelet.ends(stage.pods()[f"dispatcher-{attempt}"], 4, "no")
        stage.settle()
        stage.passes(80)
    stage.run_pods()
    stage.settle()
    assert (stage.driver("dispatcher")["restarts"], stage.driver("dispatcher")["why"]) == (BUDGET, "no")
    stage.passes(HEALTHY_S)
    assert stage.driver("dispatcher")["restarts"] == 0 and "why" not in stage.driver("dispatcher")
    gone = stage.pods()[f"dispatcher-{BUDGET + 1}"]["metadata"]
    stage.cluster.remove("Pod", "default", gone["name"], gone["uid"])
    stage.settle()
    stage.kubelet.ends(stage.pods()[f"dispatcher-{BUDGET + 2}"], 4, "no")
    stage.settle()
    assert stage.driver("dispatcher")["restarts"] == 1
    assert stage.condition("Degraded")[1] != "RestartBudgetSpent"


def test_the_budget_outlives_the_operator() -> None:
    stage = Stage().is_running()
    for attempt in range(1, BUDGET + 2):
        stage.kubelet.ends(stage.pods()[f"dispatcher-{attempt}"], 4, "no")
        stage.operator.caches.__init__()  # type: ignore[misc]  # as a new process would have them
        stage.settle()
        if attempt <= BUDGET:
            stage.passes(80)
            assert f"dispatcher-{attempt + 1}" in stage.pods()
    assert stage.condition("Degraded")[:2] == ("True", "RestartBudgetSpent")
    stage.passes(200)
    assert f"dispatcher-{BUDGET + 2}" not in stage.pods()
    stage.passes(200)
    assert f"dispatcher-{BUDGET + 2}" in stage.pods(), "rarely is not never"


@pytest.mark.parametrize("code", [2, 5])
def test_what_a_person_must_mend_is_said_and_tried_again_rarely(code: int) -> None:
    stage = Stage().is_running()
    sentence = "topic pairs does not exist: create it, or set topics.createOutput"
    stage.kubelet.ends(stage.pods()["joiner-0r0-1"], code, sentence)
    stage.settle()
    assert stage.condition("Degraded") == ("True", "MendNeeded", f"joiner-0R0: {sentence}")
    stage.passes(20)
    assert "joiner-0r0-2" not in stage.pods()
    stage.passes(20)
    assert "joiner-0r0-2" in stage.pods()
    stage.run_pods()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"


@pytest.mark.parametrize("code", [MEND_FIRST, 4])
def test_one_that_has_failed_for_weeks_is_still_judged(code: int) -> None:
    record = Record(attempt=5000, judged=4999, failures=4999)
    found = judged(record, 5000, Ended(code, "Error", "no", 0.0), False, "pod", 1000.0)
    assert 0.5 * RARE_S < found.retry_at - 1000.0 <= PAUSE_MAX_S


def test_a_clock_that_was_ahead_puts_no_driver_off() -> None:
    stage = Stage().is_running()
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "no")
    stage.clock.passes(3600)
    stage.settle()
    stage.clock.passes(-3600)  # another leads, whose clock is right
    stage.settle()
    assert "shuffler-2" in stage.pods()


def test_a_driver_that_was_given_an_old_manifest_is_begun_again_at_once() -> None:
    stage = Stage().is_running()
    stage.kubelet.ends(stage.pods()["shuffler-1"], OLD_COPY, "join.yaml is not what this pod was made for")
    stage.settle()
    assert stage.condition("Degraded")[0] == "False", "nobody has to do anything"
    stage.passes(2)
    assert "shuffler-2" in stage.alive()
    for attempt in range(2, BUDGET + 2):
        stage.kubelet.ends(stage.pods()[f"shuffler-{attempt}"], OLD_COPY, "join.yaml is not what it was made for")
        stage.settle()
        stage.passes(80)
    assert stage.condition("Degraded")[:2] == ("True", "RestartBudgetSpent"), "unless it never ends"


def test_what_was_mended_in_the_manifest_is_tried_at_once() -> None:
    stage = Stage().is_running()
    stage.kubelet.ends(stage.pods()["joiner-0r0-1"], 5, "the output topic is compacted")
    stage.settle()
    stage.change(output={"kafka": {"bootstrapServers": "kafka:9092", "topic": "others"}})
    stage.settle()
    assert "joiner-0r0-2" in stage.pods()


def test_a_drained_driver_comes_back_at_once_and_costs_no_budget() -> None:
    stage = Stage().is_running()
    pod = stage.pods()["shuffler-1"]
    stage.cluster.remove("Pod", "default", pod["metadata"]["name"], pod["metadata"]["uid"])
    stage.settle()
    assert "shuffler-2" in stage.alive()
    assert stage.driver("shuffler")["restarts"] == 0


def test_a_driver_that_stopped_unasked_comes_back() -> None:
    stage = Stage().is_running()
    stage.clock.passes(60)
    stage.kubelet.ends(stage.pods()["shuffler-1"], 0, "stopped as asked")
    stage.settle()
    assert "shuffler-2" in stage.alive()
    assert stage.driver("shuffler")["restarts"] == 0


LIVENESS = "Liveness probe failed: HTTP probe failed with statuscode: 503"
STARTUP = 'Startup probe failed: Get "http://10.0.0.1:7077/alive": connection refused'


@pytest.mark.parametrize(("found", "code"), [(LIVENESS, 0), (STARTUP, 0), (LIVENESS, 137)])
def test_a_driver_that_a_probe_has_ended_is_said_to_be(found: str, code: int) -> None:
    """However long it ran before, and whatever its own last words are: it was told to end as anybody tells it. The
    events are those of a pod that is not begun again."""
    stage = Stage().is_running()
    warned(stage, "dispatcher-1", "Unhealthy", STARTUP)
    if found == STARTUP:
        stage.clock.passes(60)
        warned(stage, "shuffler-1", "Unhealthy", found)
        stage.clock.passes(STARTS_S + 10)  # of the rest of its failures, in a row, the kubelet tells no more
    else:
        stage.clock.passes(90)
    warned(stage, "shuffler-1", "Unhealthy", "Readiness probe failed: HTTP probe failed with statuscode: 503")
    if found == LIVENESS:
        warned(stage, "shuffler-1", "Unhealthy", found)
        stage.clock.passes(100)  # so, too, of a driver that was not ready before its loop stood still
    warned(stage, "joiner-0l0-1", "Unhealthy", LIVENESS)
    for pod in ("shuffler-1", "dispatcher-1"):
        warned(stage, pod, "Killing", "Stopping container driver", "Normal")
    stage.kubelet.ends(stage.pods()["shuffler-1"], code, "the shuffler has stopped, since its process was told to end")
    stage.kubelet.ends(stage.pods()["dispatcher-1"], 0, "the dispatcher has stopped, since its process was told to end")
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 4, "a unit has failed 7 times in a row")
    stage.settle()
    status, reason, message = stage.condition("Degraded")
    assert (status, reason) == ("True", "DriverFailed")
    assert message.startswith(f"shuffler: the kubelet ended it ({found}): ")
    assert stage.driver("shuffler")["restarts"] == 1
    assert stage.driver("dispatcher")["restarts"] == 0, (
        "whoever told it to end, no probe did: that was at its beginning"
    )
    assert stage.driver("0L0")["why"] == "a unit has failed 7 times in a row", "it ended by itself"


def test_an_end_is_judged_where_events_are_not_to_be_had() -> None:
    stage = Stage().is_running()
    real = stage.cluster.list

    def without_events(kind: str, *about: Any, **more: Any) -> tuple[Raw, ...]:
        if kind == "Event":
            raise Refused(403, "cannot list resource events")
        return tuple(real(kind, *about, **more))

    stage.cluster.list = without_events
    stage.kubelet.ends(stage.pods()["shuffler-1"], 4, "no")
    stage.operator.look(stage.key)
    assert stage.condition("Degraded") == ("True", "DriverFailed", "shuffler: no")


def test_a_driver_that_ends_well_again_and_again_is_not_started_in_a_circle() -> None:
    stage = Stage().is_running()
    for attempt in (1, 2, 3):
        stage.kubelet.ends(stage.pods()[f"shuffler-{attempt}"], 0)
        stage.settle()
        stage.passes(100)
    assert stage.driver("shuffler")["restarts"] == 3


def test_a_pod_on_a_node_that_does_not_answer_is_not_waited_for() -> None:
    stage = Stage().is_running()
    name = f"{stage.id}-shuffler-1"
    stage.cluster.merge("Pod", "default", name, {"metadata": {"finalizers": ["test/kubelet-is-away"]}})
    pod = stage.cluster.get("Pod", "default", name)
    assert pod is not None
    stage.cluster.remove("Pod", "default", name, pod["metadata"]["uid"])
    stage.settle()
    assert stage.driver("shuffler")["state"] == "Stopping"
    stage.passes(10)
    assert "shuffler-2" in stage.pods()


def test_out_of_memory_is_named() -> None:
    stage = Stage().is_running()
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 137, "", "OOMKilled")
    stage.settle()
    assert "for want of memory" in stage.condition("Degraded")[2]


def test_a_driver_that_is_not_ready_for_a_while_keeps_its_age() -> None:
    stage = Stage().is_running()
    since = stage.driver("shuffler")["readySince"]
    stage.clock.passes(500)
    stage.kubelet.runs(stage.pods()["shuffler-1"], ready=False)
    stage.settle()
    assert stage.driver("shuffler")["state"] == "NotReady"
    assert stage.condition("Ready")[0] == "False"
    stage.run_pods()
    stage.settle()
    assert stage.driver("shuffler")["readySince"] == since
