"""What drivers tell of themselves, in the status."""

from __future__ import annotations

import pytest

from biclique_operator.observed import says_of
from tests.operator.stage import Stage, created

JOINER = {
    "tier": "joiner",
    "units": {"0L0.0": {"state": "runs", "why": "", "epoch": 7, "figures": {}}},
    "paused": {},
    "figures": {
        "rate_rows_s": 100.0,
        "lag_rows": 5,
        "state_rows": 1_000_000,
        "state_bytes": 48_000_000,
        "checkpoint_age_s": 12.5,
        "load": 0.4,
    },
}
SHUFFLER = {"units": {}, "paused": {}, "figures": {"rate_rows_s": 12_345.0, "lag_rows": 1_234_567}}


def told(stage: Stage, **answers: dict[str, object]) -> None:
    stage.operator.told = {f"{stage.id}-{name.replace('_', '-')}": says_of(answer) for name, answer in answers.items()}


def test_figures_are_sums_rounded() -> None:
    stage = Stage().is_running()
    told(stage, shuffler_1=SHUFFLER, joiner_0l0_1=JOINER, joiner_0r0_1=JOINER)
    stage.settle()
    figures = stage.status["figures"]
    assert figures["rateRowsPerSecond"] == 12_000
    assert figures["lagRows"] == 1_200_000
    assert figures["stateRows"] == 2_000_000
    assert (stage.status["rate"], stage.status["lag"], stage.status["state"]) == ("12k/s", "1.2M", "96 MB")
    assert stage.condition("StateSafe")[:2] == ("True", "Checkpointed")
    subgroup = stage.cluster.get("JoinSubgroup", "default", f"{stage.id}-0l0")
    assert subgroup is not None
    shown = subgroup["status"]
    assert (shown["units"], shown["rate"], shown["lag"], shown["state"]) == ("1/1", "100/s", "5", "48 MB")
    assert shown["members"] == [{"name": "0L0.0", "state": "runs"}]


def test_a_steady_load_is_a_steady_status() -> None:
    stage = Stage().is_running()
    told(stage, shuffler_1=SHUFFLER, joiner_0l0_1=JOINER, joiner_0r0_1=JOINER)
    stage.passes(60)
    before = stage.everything()
    for rate in (12_300.0, 12_010.0, 11_900.0):
        figures = {**SHUFFLER["figures"], "rate_rows_s": rate}  # type: ignore[dict-item]
        told(stage, shuffler_1={**SHUFFLER, "figures": figures}, joiner_0l0_1=JOINER, joiner_0r0_1=JOINER)
        stage.passes(60)
    assert stage.everything() == before


def test_a_unit_that_stands_still_and_a_paused_source_are_named() -> None:
    stage = Stage().is_running()
    why = "it holds 1.9 GB of 2 GB: give it more memory, or a shorter window"
    stands = {**JOINER, "units": {"0L0.0": {"state": "stands still", "why": why}}}
    told(stage, shuffler_1=SHUFFLER, joiner_0l0_1=stands, joiner_0r0_1=JOINER)
    stage.settle()
    assert stage.condition("Degraded") == ("True", "UnitStandsStill", f"joiner 0L0.0 stands still: {why}")
    assert stage.status["units"] == "1/2"
    # As on a cluster: every driver tells of it, and the shuffler of its source in the place of a unit, too.
    paused = {"paused": {"orders": "1,000 bad records"}}
    source = {"orders": {"state": "stands still", "why": "it is paused: 1,000 bad records"}}
    told(
        stage,
        shuffler_1={**SHUFFLER, **paused, "units": source},
        dispatcher_1={"units": {}, **paused},
        joiner_0l0_1={**JOINER, **paused},
        joiner_0r0_1={**JOINER, **paused},
    )
    stage.settle()
    assert stage.condition("Degraded")[:2] == ("True", "SourcePaused")
    assert stage.status["paused"] == [{"name": "orders", "why": "1,000 bad records"}]


def test_a_kafka_that_does_not_answer_is_named_until_it_does() -> None:
    stage = created()
    for pod in stage.pods().values():
        stage.kubelet.runs(pod, ready=False)
    begins = {"why": "Spark starts"}
    told(stage, shuffler_1=begins, dispatcher_1=begins, joiner_0l0_1={"why": "joiner 0L0.0 is starting"})
    stage.settle()
    assert stage.condition("Degraded")[0] == "False", "it merely begins"
    sentence = "Kafka at kafka:9092 does not answer (Connection refused)"
    told(stage, shuffler_1={"why": sentence}, dispatcher_1={"why": sentence})
    stage.settle()
    assert stage.condition("Degraded") == ("True", "DriverWaits", f"shuffler: {sentence}")
    assert stage.condition("Ready")[:2] == ("False", "DriverWaits")
    told(stage)
    stage.run_pods()
    stage.settle()
    assert stage.condition("Degraded")[0] == "False"


@pytest.mark.parametrize("why", ["its worker was killed", "nothing was heard of it for more than 15 s"])
def test_a_unit_that_is_starting_again_tells_why(why: str) -> None:
    stage = Stage().is_running()
    stage.kubelet.runs(stage.pods()["joiner-0l0-1"], ready=False)
    told(stage, joiner_0l0_1={"why": "joiner 0L0.0 is starting"})
    stage.settle()
    assert stage.condition("Degraded")[0] == "False", "it merely begins"
    told(stage, joiner_0l0_1={"why": f"joiner 0L0.0 is starting: {why}"})
    stage.settle()
    sentence = f"joiner-0L0: joiner 0L0.0 is starting: {why}"
    assert stage.condition("Degraded") == ("True", "DriverWaits", sentence)


def test_what_holds_nothing_yet_is_safe() -> None:
    stage = Stage().is_running()
    empty = {**JOINER, "figures": {"state_rows": 0, "state_bytes": 0}}
    told(stage, joiner_0l0_1=empty, joiner_0r0_1=empty)
    stage.settle()
    assert stage.condition("StateSafe")[:2] == ("True", "NoStateYet")
    rows = {**JOINER, "figures": {"state_rows": 7}}
    told(stage, joiner_0l0_1=rows, joiner_0r0_1=empty)
    stage.settle()
    status, reason, message = stage.condition("StateSafe")
    assert (status, reason) == ("False", "CheckpointsOld") and "joiner-0L0 has no checkpoint" in message


def test_old_checkpoints_make_state_unsafe() -> None:
    stage = Stage().is_running()
    old = {**JOINER, "figures": {**JOINER["figures"], "checkpoint_age_s": 900}}  # type: ignore[dict-item]
    told(stage, joiner_0l0_1=old, joiner_0r0_1=JOINER)
    stage.settle()
    assert stage.condition("StateSafe")[:2] == ("False", "CheckpointsOld")
    assert stage.condition("Ready")[0] == "True"


def test_a_driver_that_is_not_heard_leaves_the_state_unknown() -> None:
    stage = Stage().is_running()
    assert stage.condition("StateSafe")[:2] == ("Unknown", "NotKnown")


def test_an_answer_without_anything_in_it_is_an_answer() -> None:
    assert says_of({}).units == ()
    assert says_of({"figures": None, "units": None, "paused": None}).paused == ()
