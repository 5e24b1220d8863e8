"""What a driver knows of its units, and when it says that the tier is ready."""

from __future__ import annotations

from dataclasses import dataclass

from biclique.hosts.units.board import FRESH_S, SPARK_STARTS, SPARK_STARTS_S, TURNS_S, Board
from biclique.ports.control import Condition, Pause, State
from biclique.ports.reports import Figures, Report

A, B = "joiner 0L0.0", "joiner 0L0.1"
TURNING = Report(7, 0.1, Figures(rate_rows_s=10.0, lag_rows=3, state_rows=5, state_bytes=50, load=0.5))


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def board(clock: Clock) -> Board:
    paused = {"orders": Pause("9 of 10 are bad", "schema")}
    made = Board("joiner", "0L0", {A: "0L0.0", B: "0L0.1"}, lambda: False, lambda: paused, clock)
    made.say("")
    return made


def states(of: Board) -> dict[str, tuple[str, str]]:
    return {name: (unit["state"], unit["why"]) for name, unit in of.status()["units"].items()}


def test_a_tier_is_ready_when_each_of_its_units_has_turned() -> None:
    made = board(Clock())
    made.say("Spark starts")
    assert made.unready() == "Spark starts"
    made.say("")
    assert made.unready() == "joiner 0L0.0 is starting"
    made.reported(A, Report())
    assert made.unready() == "joiner 0L0.0 is starting", "it restores"
    made.reported(A, TURNING)
    assert made.unready() == "joiner 0L0.1 is starting"
    made.reported(B, TURNING)
    assert made.unready() == ""
    assert made.status()["ready"]


def test_who_stands_still_for_want_of_room_is_ready_and_who_waits_for_kafka_is_not() -> None:
    made = board(Clock())
    for name in (A, B):
        made.reported(name, TURNING)
    made.tell(A, Condition(State.STANDS, "no room"))
    assert made.unready() == ""
    assert states(made)["0L0.0"] == ("stands still", "no room")
    made.tell(A, Condition(State.WAITS, "Kafka is away"))
    assert made.unready() == "joiner 0L0.0 waits: Kafka is away"
    made.reported(A, Report())
    assert made.unready() == "joiner 0L0.0 waits: Kafka is away", "it has begun again, and has not come so far"
    made.reported(A, TURNING)
    assert made.unready() == ""


def test_a_unit_that_is_not_heard_of_is_starting() -> None:
    clock = Clock()
    made = board(clock)
    for name in (A, B):
        made.reported(name, TURNING)
    clock.now += FRESH_S + 1
    made.reported(B, TURNING)
    assert states(made) == {
        "0L0.0": ("starting", f"nothing was heard of it for more than {FRESH_S:.0f} s"),
        "0L0.1": ("runs", ""),
    }
    made.ended(B, "its worker was killed", False)
    assert states(made)["0L0.1"] == ("starting", "its worker was killed")
    made.reported(B, Report(7, FRESH_S + 1))
    assert states(made)["0L0.1"][0] == "starting", "it answers, and its loop stands"


def test_who_stands_at_an_answer_that_does_not_come_waits_for_it() -> None:
    clock = Clock()
    made = board(clock)
    said = f"Kafka has not answered for more than {FRESH_S:.0f} s"
    made.reported(A, Report(7, FRESH_S + 1, awaits="Kafka"))
    made.reported(B, Report(7, 0.0, awaits="Kafka"))
    assert states(made) == {"0L0.0": ("waits", said), "0L0.1": ("runs", "")}
    assert made.unready() == f"joiner 0L0.0 waits: {said}"
    made.reported(A, TURNING)
    assert made.unready() == ""
    clock.now += FRESH_S + 1
    assert states(made)["0L0.1"][0] == "starting", "it waited when it was last heard, a quarter of a minute ago"
    with made.awaiting("Kafka"):
        assert states(made) == {"0L0.0": ("waits", said), "0L0.1": ("waits", said)}, "of units that the driver shows"
    assert states(made)["0L0.0"][0] == "starting"


def test_who_has_left_is_none_of_the_tier_any_more() -> None:
    made = board(Clock())
    made.reported(A, TURNING)
    made.ended(B, "left", True)
    made.reported(B, TURNING)
    made.reported("dispatcher 0", TURNING)
    assert list(states(made)) == ["0L0.0"]
    assert made.unready() == ""


def test_what_is_shown() -> None:
    made = board(Clock())
    made.attempt = 3
    made.reported(A, TURNING)
    made.reported(B, Report(9, 0.1, Figures(rate_rows_s=1.0, lag_rows=1, checkpoint_age_s=4.0, load=0.25)))
    none = dict.fromkeys(("rate_rows_s", "lag_rows", "state_rows", "state_bytes", "checkpoint_age_s", "load"))
    assert made.status() == {
        "tier": "joiner",
        "subgroup": "0L0",
        "attempt": 3,
        "ready": True,
        "why": "",
        "units": {
            "0L0.0": {
                "state": "runs",
                "why": "",
                "epoch": 7,
                "figures": none | {"rate_rows_s": 10.0, "lag_rows": 3, "state_rows": 5, "state_bytes": 50, "load": 0.5},
            },
            "0L0.1": {
                "state": "runs",
                "why": "",
                "epoch": 9,
                "figures": none | {"rate_rows_s": 1.0, "lag_rows": 1, "checkpoint_age_s": 4.0, "load": 0.25},
            },
        },
        "paused": {"orders": "9 of 10 are bad"},
        "figures": {
            "rate_rows_s": 11.0,
            "lag_rows": 4,
            "state_rows": 5,
            "state_bytes": 50,
            "checkpoint_age_s": 4.0,
            "load": 0.5,
        },
    }


def test_a_driver_whose_loop_turns_is_alive() -> None:
    clock = Clock()
    made = board(clock)
    clock.now += TURNS_S - 1
    assert made.alive()
    clock.now += 2
    assert not made.alive()
    made.turn()
    assert made.alive()


def test_a_spark_that_starts_has_more_time_than_a_loop_that_turns() -> None:
    clock = Clock()
    made = board(clock)
    made.say(SPARK_STARTS)
    clock.now += SPARK_STARTS_S - 1
    assert made.alive()
    clock.now += 2
    assert not made.alive()
    made.turn()
    made.say("")
    clock.now += TURNS_S + 1
    assert not made.alive()
