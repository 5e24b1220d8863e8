"""The judge of chaos runs, tried on answers that are known: right ones pass, each kind of wrong one is named."""

from __future__ import annotations

from collections import Counter

from tests.chaos.judging import compared
from tests.chaos.keys_first import keys_first
from tests.chaos.schedule import KILLS, whole
from tests.chaos.stage import GROUPED, PAIRS
from tests.chaos.truth import WINDOW_S, Given, Row

SECOND = 1_000_000


def given() -> Given:
    made = Given()
    made.rows["r"] = [Row(1, 0, 0), Row(1, 10 * SECOND, 1), Row(2, 0, 2)]
    made.rows["s"] = [Row(1, WINDOW_S * SECOND, 0), Row(1, WINDOW_S * SECOND + 1, 1), Row(3, 0, 2)]
    return made


def test_pairs_are_those_of_one_key_within_the_window() -> None:
    assert given().pairs() == Counter({(0, 0): 1, (1, 0): 1, (1, 1): 1})


def test_groups_count_pairs_by_their_right_row() -> None:
    assert given().groups() == {0: (2, 1), 1: (1, 1)}


def test_what_is_missing_and_what_is_too_many_are_both_named() -> None:
    wanted = Counter({(0, 0): 1, (1, 1): 1})
    assert compared("pairs", wanted, wanted) == []
    (missing,) = compared("pairs", Counter({(0, 0): 1}), wanted)
    assert "1 pairs missing of 2" in missing and "(1, 1)" in missing
    (doubled,) = compared("pairs", Counter({(0, 0): 2, (1, 1): 1}), wanted)
    assert "1 pairs too many" in doubled and "(0, 0)" in doubled


def test_a_seed_chooses_the_same_faults_again_and_enough_of_them() -> None:
    shapes = (PAIRS, GROUPED)
    chosen = whole(5, shapes, repeats=1)
    again, other = whole(5, shapes, repeats=1), whole(6, shapes, repeats=1)
    told = [(due.fault.name, due.victim, due.after_s) for each in chosen.values() for due in each]
    assert told == [(due.fault.name, due.victim, due.after_s) for each in again.values() for due in each]
    assert told != [(due.fault.name, due.victim, due.after_s) for each in other.values() for due in each]
    assert sum(due.fault.kill for each in chosen.values() for due in each) >= KILLS
    struck = {(due.fault.name, due.victim) for each in chosen.values() for due in each}
    assert ("kill -9 of its Java", "merger") in struck and ("Redis down for long", "redis") in struck


def test_keys_first_is_struck_where_it_reads_payload() -> None:
    struck = {(due.fault.name, due.victim) for due in keys_first(1)}
    assert ("cut off from Kafka, answers are lost", "joiner") in struck
    assert ("stands still, comes back as a zombie", "joiner") in struck
    assert {"shuffler", "dispatcher", "joiner", "kafka"} <= {victim for _, victim in struck}
