"""The shuffler's gate: closed when the dispatchers are far behind, open when they have caught up."""

from __future__ import annotations

from biclique.hosts.shuffle.backlog import CLOSED_AT, OPEN_AT, Gate


def test_it_closes_when_they_are_far_behind_and_opens_when_they_have_caught_up() -> None:
    behind = iter((0, CLOSED_AT, CLOSED_AT + 1, CLOSED_AT, OPEN_AT + 1, OPEN_AT, OPEN_AT + 1, CLOSED_AT + 1, 0))
    gate = Gate(lambda: next(behind))
    assert not gate.closed
    found = [gate.look() for _ in range(9)]
    assert found == [False, False, True, True, True, False, False, True, False]
    assert not gate.closed
