"""The restart budget of a unit, with times by hand."""

from __future__ import annotations

from biclique.hosts.units.restarts import Budget, Restarts

BUDGET = Budget(restarts=4, healthy_s=100.0, backoff_s=1.0, backoff_max_s=3.0)


def test_each_restart_waits_longer_up_to_a_bound_and_then_there_are_none() -> None:
    restarts = Restarts(BUDGET)
    assert [restarts.after(5.0) for _ in range(6)] == [1.0, 2.0, 3.0, 3.0, None, None]


def test_a_healthy_run_earns_the_whole_budget_back() -> None:
    restarts = Restarts(BUDGET)
    assert [restarts.after(ran) for ran in (1.0, 1.0, 1.0, 1.0, 100.0, 99.9)] == [1.0, 2.0, 3.0, 3.0, 1.0, 2.0]
