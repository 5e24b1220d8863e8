"""A soak is made of commands that anyone can run again; one that fails ends it, one without time left is stopped."""

from __future__ import annotations

import time

import pytest

from tests.simulation.soak import INPUTS_A_ROUND, SEEDS_A_ROUND, Part, parts, passes, soak

SLEEPS = ("timeit", "-n1", "-r1", "import time; time.sleep(60)")


def test_a_round_says_how_each_of_its_parts_is_run_again() -> None:
    seeds, bugs, fuzz = (part.again for part in parts(70_000, 2))
    assert seeds == f"python -m tests.simulation seeds --first 70000 --count {SEEDS_A_ROUND} --jobs 2"
    assert bugs == "python -m tests.simulation planted --seek --first 70000 --jobs 2"
    assert fuzz.startswith(f"FUZZ_SEED=70000 FUZZ_INPUTS={INPUTS_A_ROUND} python -m pytest")


def test_a_part_passes_or_fails_as_its_command_does() -> None:
    assert passes(Part("nothing", ("timeit", "-n1", "-r1", "pass")), float("inf"))
    assert not passes(Part("a failure", ("timeit", "-n1", "-r1", "1 / 0")), float("inf"))


def test_a_part_is_stopped_when_its_time_is_over_and_has_not_failed() -> None:
    began = time.monotonic()
    assert passes(Part("much", SLEEPS), 0.5)
    assert time.monotonic() - began < 30


def test_a_soak_without_time_says_where_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak(0, 1, first=70_000) == 0
    assert "make soak FIRST=70000" in capsys.readouterr().out
