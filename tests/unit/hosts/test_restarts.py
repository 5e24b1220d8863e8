"""The restart budget of a unit, with times by hand."""

from __future__ import annotations

from biclique.hosts.units import limits
from biclique.hosts.units.restarts import Budget, Restarts, Saying
from biclique.ports.kafka_reading import SECONDS
from biclique.tiers.pressure import MemoryBudget
from tests.unit.tiers.building import plan

PLAN = plan("SELECT r.k FROM r JOIN s ON r.k = s.k")
BUDGET = Budget(restarts=4, healthy_s=100.0, backoff_s=1.0, backoff_max_s=3.0)


def test_each_restart_waits_longer_up_to_a_bound_and_then_there_are_none() -> None:
    restarts = Restarts(BUDGET)
    assert [restarts.after_failure(5.0) for _ in range(6)] == [1.0, 2.0, 3.0, 3.0, None, None]


def test_a_healthy_run_earns_the_whole_budget_back() -> None:
    restarts = Restarts(BUDGET)
    waits = [restarts.after_failure(ran) for ran in (1.0, 1.0, 1.0, 1.0, 100.0, 99.9)]
    assert waits == [1.0, 2.0, 3.0, 3.0, 1.0, 2.0]


def test_what_is_away_is_waited_for_without_end_and_explains_the_failures_before() -> None:
    restarts = Restarts(BUDGET)
    assert [restarts.after_failure(1.0) for _ in range(4)] == [1.0, 2.0, 3.0, 3.0]
    assert [restarts.after_wait(1.0) for _ in range(2000)][:4] == [1.0, 2.0, 3.0, 3.0]
    assert restarts.after_failure(1.0) == 1.0


def test_unknown_outcomes_halve_what_a_transaction_holds_until_a_run_was_healthy() -> None:
    restarts = Restarts(BUDGET)
    assert restarts.after_unknown(1.0) == 1.0
    assert restarts.after_unknown(1.0) == 2.0
    assert restarts.halvings == 2
    for budget in (MemoryBudget(1 << 40), MemoryBudget(64 << 20)):
        assert limits.joining(2, budget).batch_max.bytes == limits.joining(0, budget).batch_max.bytes // 4
        assert limits.writing(2, budget).bytes == limits.writing(0, budget).bytes // 4
    assert limits.reads(2, PLAN).turn_bytes == limits.reads(0, PLAN).turn_bytes // 4
    restarts.after_failure(100.0)
    assert restarts.halvings == 0


def test_a_transaction_never_holds_nothing() -> None:
    for halvings in (0, 3, 12, 5000):
        assert limits.joining(halvings, MemoryBudget(1)).batch_max.matches >= 1
        assert limits.reads(halvings, PLAN).turn_records >= 1
        assert limits.writing(halvings, MemoryBudget(1)).groups >= 1


def test_a_healthy_run_is_no_shorter_than_one_transaction_may_take() -> None:
    assert Budget().healthy_s >= SECONDS, "else one that always times out would look healthy"


def test_a_sentence_is_said_at_once_and_then_more_and_more_rarely() -> None:
    saying = Saying()
    said = [second for second in range(1000) if saying.is_due("away", float(second))]
    assert said == [0, 60, 180, 420, 900]
    assert saying.is_due("refused", 901.0)
    assert not saying.is_due("refused", 960.0)
    assert saying.is_due("away", 961.0)
