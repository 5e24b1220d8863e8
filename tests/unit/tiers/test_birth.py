"""What a generation of a unit begins with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from biclique.hosts.perform import try_start_unit
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog
from biclique.tiers.effects import Commit, End
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.progress import JoinerProgress
from tests.unit.tiers.building import plan


@pytest.mark.parametrize("left_with", [0, 7])
def test_a_generation_goes_on_counting_what_failed_in_those_before_it(left_with: int) -> None:
    table = first_table(plan("SELECT r.k FROM r JOIN s ON r.k = s.k"))
    unit, log = table.units()[0], MemoryLog()
    client = log.client()
    for generation in range(3):
        born = unit._replace(generation=generation)
        assert try_start_unit(client, born, table, 10 * generation) is End.STOPPED
        began = client.read_progress(joiner_producer(born))
        assert isinstance(began, JoinerProgress)
        assert (began.lower, began.offset, began.frontier) == (10 * generation, 10 * generation, -1)
        assert began.failed == generation * left_with
        left = replace(began, frontier=100, failed=began.failed + left_with)
        client.commit(Commit(joiner_producer(unit), joiner_producer(born), (), left))
