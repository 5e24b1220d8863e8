"""Somebody else deletes records that are still needed, and the unit starts again: it stops loudly, or nothing that
was deleted mattered. Never a wrong result."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

import pytest

from biclique.tiers import loops
from biclique.tiers.effects import Effect, Fetched, Read
from biclique.tiers.messages import Address, Topic, unit_address
from biclique.tiers.reading_on import TrimmedTooFar
from tests.model.evidence import Violation
from tests.simulation.world import World

SEEDS = range(300, 316)


class Careless(World):
    """Once, late in the run, everything that a unit's or a dispatcher's log holds is deleted behind everybody's back,
    and all checkpoints are lost."""

    done = False

    def _trim(self) -> None:
        actions_left = self.scenario.actions
        if self.done or self.now - self.began < actions_left:
            super()._trim()
            return
        self.done = True
        self.store.lose_everything()
        addresses = [unit_address(unit) for unit in self.tables[-1].units()]
        addresses += [Address(Topic.SHUFFLED, number) for number in range(self.plan.dispatchers)]
        for address in addresses:
            self.log.trim(address, self.log.bounds(address).end)
        for process in list(self.processes.values()):
            self._crash(process)


def outcome(seed: int) -> list[Violation] | TrimmedTooFar:
    try:
        return Careless(seed).run()
    except TrimmedTooFar as stop:
        return stop


def test_what_was_deleted_is_a_loud_stop_or_mattered_to_nobody() -> None:
    found = [outcome(seed) for seed in SEEDS]
    stops = [each for each in found if isinstance(each, TrimmedTooFar)]
    assert len(stops) > len(SEEDS) // 2
    assert all(each == [] for each in found if not isinstance(each, TrimmedTooFar))
    for stop in stops:
        assert re.match(r"the log \S+ is read on at offset \d+ and begins at \d+, .* restore the topic, or", str(stop))


def test_without_the_look_results_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_on(address: Address, at: int, limit: int) -> Generator[Effect, Any, Fetched]:
        fetched: Fetched = yield Read(address, at, limit)
        return fetched

    monkeypatch.setattr(loops, "read_on", read_on)
    assert any(outcome(seed) for seed in SEEDS)
