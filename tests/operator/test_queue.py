"""The work queue: once for each key, never twice at a time, later and later after failures."""

from __future__ import annotations

import threading

from biclique_operator.queue import LAST_S, WorkQueue


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def queue_at(clock: Clock) -> WorkQueue[str]:
    return WorkQueue(clock, lambda: 0.5)


def taken(queue: WorkQueue[str]) -> str | None:
    found = queue.take(0.0)
    return None if found is None else found[0]


def test_a_key_is_in_it_once() -> None:
    queue = queue_at(Clock())
    for _ in range(3):
        queue.add("a")
    queue.add("b")
    assert [taken(queue), taken(queue), taken(queue)] == ["a", "b", None]


def test_a_key_that_is_held_is_not_taken_again_until_it_is_given_back() -> None:
    queue = queue_at(Clock())
    queue.add("a")
    assert taken(queue) == "a"
    queue.add("a")
    assert taken(queue) is None
    queue.done("a")
    assert taken(queue) == "a"
    queue.done("a")
    assert taken(queue) is None


def test_the_sooner_of_two_times_counts() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add("a", 30)
    queue.add("a", 10)
    queue.add("a", 20)
    clock.now += 10
    assert taken(queue) == "a"
    queue.done("a", 5)
    clock.now += 4
    assert taken(queue) is None
    clock.now += 1
    assert taken(queue) == "a"


def test_failures_come_back_later_and_later_and_a_success_forgets_them() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add("a")
    waits = []
    for _ in range(10):
        assert taken(queue) == "a"
        waits.append(queue.failed("a"))
        clock.now += waits[-1]
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(waits) == LAST_S
    taken(queue)
    queue.done("a")
    queue.add("a")
    taken(queue)
    assert queue.failed("a") == 0.5


def test_a_key_may_fail_for_weeks() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add("a")
    for _ in range(2000):
        clock.now += 2 * LAST_S
        assert taken(queue) == "a"
        wait_s = queue.failed("a")
    assert wait_s == LAST_S


def test_it_tells_how_long_a_key_has_been_due() -> None:
    clock = Clock()
    queue = queue_at(clock)
    queue.add("a", 1)
    clock.now += 3
    assert len(queue) == 1
    assert queue.take(0.0) == ("a", 2.0)
    assert len(queue) == 0


def test_whoever_waits_goes_when_it_is_closed() -> None:
    queue = queue_at(Clock())
    found: list[object] = ["nothing yet"]
    waiting = threading.Thread(target=lambda: found.append(queue.take()))
    waiting.start()
    queue.close()
    waiting.join(5)
    assert found[-1] is None


def test_a_queue_stands_when_a_key_is_due_and_nobody_takes_any() -> None:
    clock = Clock()
    queue = queue_at(clock)
    clock.now += 500
    assert queue.stands_s() == 0.0, "it is empty"
    queue.add("a")
    queue.add("b")
    queue.add("later", 1000)
    clock.now += 10
    assert queue.stands_s() == 10.0
    assert taken(queue) == "a"
    assert queue.stands_s() == 0.0, "it is long, and goes on"
    clock.now += 7
    assert queue.stands_s() == 7.0
    assert taken(queue) == "b"
    clock.now += 100
    assert queue.stands_s() == 0.0, "nothing is due"
