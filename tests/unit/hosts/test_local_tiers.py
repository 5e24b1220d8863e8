"""The tiers in one process, fed by hand."""

from __future__ import annotations

from biclique.hosts.local_tiers import EngineClock, LocalTiers
from biclique.ports.memory import MemoryStore
from biclique.tiers.messages import Address, Topic
from tests.unit.tiers.building import plan, source_block


def test_the_log_of_a_long_run_stays_short_the_signals_too() -> None:
    made = plan("SELECT r.k, s.v FROM r JOIN s ON r.k = s.k", extra="")
    tiers = LocalTiers(made, MemoryStore(), 1, None, EngineClock(), hold=False)
    longest = 0
    for number in range(200):
        for source in range(2):
            fields = 2 if source else 1
            tiers.feed(source_block([number], predecessor=number - 1, source=source, fields=fields))
        tiers.run_until_idle()
        list(tiers.take(Topic.OUTPUT))
        tiers.trim()
        bounds = tiers.log.bounds(Address(Topic.SIGNALS, 0))
        longest = max(longest, bounds.end - bounds.start)
    assert bounds.end > 300, "nothing is shown by a topic that nobody writes to"
    assert longest < 20
