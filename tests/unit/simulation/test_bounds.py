"""The judge of what a run has used: an honest run keeps its bounds, and stricter ones are seen to be broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.auditor import audit
from tests.model.bounds import Limits, Use
from tests.simulation.world import World


@pytest.fixture(scope="module")
def run() -> tuple[World, Use]:
    for seed in range(100):
        world = World(seed)
        plain = len(world.plan.stages) == 1 and not world.plan.mergers
        if plain and world.scenario.pending_rows_max == 2 and world.scenario.seal_rate:
            assert world.run() == []
            use = world.use()
            matched = any(made.owner.tier == "joiner" and made.sends for made in use.transactions)
            if matched and use.blob_rows > 1 and use.manifests > 1:
                return world, use
    raise AssertionError("no run sheds blocks, matches and seals")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("turn_source_records", "a transaction of dispatcher"),
        ("matches_max", "a transaction of joiner"),
        ("held_rows", "rows that wait"),
        ("blob_rows", "a blob has"),
        ("manifests", "manifests of one owner"),
    ],
)
def test_a_bound_that_is_passed_is_seen(run: tuple[World, Use], limit: str, said: str) -> None:
    world, use = run
    assert audit(world.evidence(), use) == []
    # Held rows are excused up to those of one epoch.
    held = dict.fromkeys(use.held, 1000) if limit == "held_rows" else use.held
    limits: Limits = replace(use.limits, **{limit: 0})
    found = audit(world.evidence(), replace(use, limits=limits, held=held))
    assert {violation.promise for violation in found} == {"work is bounded"}
    assert any(said in violation.what for violation in found)


def test_a_checkpoint_that_was_not_as_it_should_be_is_seen(run: tuple[World, Use]) -> None:
    world, use = run
    (found,) = audit(world.evidence(), replace(use, checkpoints=("a manifest lacks a blob",)))
    assert (found.promise, found.what) == ("what a store has lost is sealed again", "a manifest lacks a blob")
