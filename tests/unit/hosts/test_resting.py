"""A unit rests as long as it is asked to while there may be work, longer where nothing comes, never less than asked."""

from __future__ import annotations

from biclique.hosts.units.resting import EAGER, IDLE_MS, Resting


def test_rests_grow_where_nothing_comes_and_shrink_when_something_does() -> None:
    asked: list[float] = []
    arrives: list[bool] = []

    def wait(seconds: float) -> bool:
        asked.append(seconds)
        return arrives.pop() if arrives else False

    rest = Resting(wait)
    for _ in range(EAGER + 2):
        rest(10)
    assert asked == [0.01] * EAGER + [IDLE_MS / 1000] * 2
    arrives.append(True)
    rest(10)
    rest(10)
    assert asked[-2:] == [IDLE_MS / 1000, 0.01]


def test_a_rest_is_never_shorter_than_asked() -> None:
    asked: list[float] = []
    rest = Resting(lambda seconds: bool(asked.append(seconds)))
    for _ in range(EAGER + 1):
        rest(200)
    assert set(asked) == {0.2}
