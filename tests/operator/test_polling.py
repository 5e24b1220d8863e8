"""What drivers told last counts for a while: one answer that does not come is no news."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

from biclique_operator.caches import Caches, QueryKey
from biclique_operator.observed import DriverSays, says_of
from biclique_operator.polling import EVERY_S, KEPT_S, Polling
from tests.operator.stage import Clock, Stage

DRIVERS = 4


class Asked(Polling):
    """`silent`: nobody answers. `says`: what everybody does."""

    def __init__(self, caches: Caches, clock: Clock) -> None:
        self.changed: list[QueryKey] = []
        super().__init__(caches, self.changed.append, clock)
        self.silent, self.says = False, says_of({"why": ""})

    def _ask(self, ip: str) -> DriverSays | None:
        return None if self.silent else self.says

    def round(self) -> int:
        """How many are told of then."""
        self.changed.clear()
        with ThreadPoolExecutor(1) as pool:
            self.ask_all(pool)
        return len(self.told())


def running() -> tuple[Stage, Asked]:
    stage = Stage().is_running()
    stage.operator.list_everything()
    return stage, Asked(stage.operator.caches, stage.clock)


def test_answers_that_are_missed_are_no_news_until_they_are_old() -> None:
    stage, asked = running()
    assert asked.round() == DRIVERS and set(asked.changed) == {stage.key}
    asked.silent = True
    stage.clock.passes(EVERY_S)
    assert asked.round() == DRIVERS and not asked.changed
    stage.clock.passes(KEPT_S)
    assert asked.told() == {}
    asked.silent = False
    assert asked.round() == DRIVERS and set(asked.changed) == {stage.key}


def test_another_answer_is_told_of_at_once_and_figures_alone_are_not() -> None:
    stage, asked = running()
    asked.round()
    asked.says = says_of({"why": "", "figures": {"lag_rows": 7}})
    assert asked.round() == DRIVERS and not asked.changed
    asked.says = says_of({"why": "Kafka does not answer"})
    assert asked.round() == DRIVERS and set(asked.changed) == {stage.key}
    assert {says.why for says in asked.told().values()} == {"Kafka does not answer"}


def test_a_pod_that_is_gone_says_nothing_any_more() -> None:
    stage, asked = running()
    asked.round()
    gone = stage.pods()["joiner-0l0-1"]
    stage.cluster.remove("Pod", "default", gone["metadata"]["name"], gone["metadata"]["uid"])
    stage.operator.list_everything()
    assert asked.round() == DRIVERS - 1


def test_who_begins_to_lead_waits_for_answers_and_not_for_long() -> None:
    _, asked = running()
    stopping, leading = threading.Event(), threading.Event()
    thread = threading.Thread(target=asked.run, args=(stopping, leading))
    thread.start()
    try:
        began = time.monotonic()
        asked.wait_for_first(0.2)
        assert time.monotonic() - began >= 0.2 and asked.told() == {}, "it does not lead"
        leading.set()
        asked.wait_for_first(30.0)
        assert len(asked.told()) == DRIVERS
    finally:
        stopping.set()
        thread.join(30.0)
    assert not thread.is_alive()
