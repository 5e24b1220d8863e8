"""The operator's own sign of life: one that is deaf is told from one that is idle, also on the real API server, where
its watches fall silent and nobody says so."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from biclique_operator import canary
from biclique_operator.canary import EVERY_S, HEARD_S, Canary
from biclique_operator.cluster import connect
from biclique_operator.handlers import quieten_kopf
from biclique_operator.service import Service
from biclique_operator.settings import Settings
from biclique_operator.telemetry import silent
from infra import processes
from tests.chaos.relay import Way
from tests.operator.conftest import WatchedCluster
from tests.operator.process import probed, relayed
from tests.operator.stage import INSTALLATION


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_one_that_hears_what_it_writes_is_well_however_long_nothing_else_happens() -> None:
    clock = Clock()
    bird = Canary(clock)
    for version in range(1, 50):
        bird.sent(version)
        clock.now += 1
        bird.heard(version)
        bird.turned()
        assert not bird.is_missing()
        assert bird.ages_s() == (0.0, 0.0)
        clock.now += EVERY_S


def test_one_that_hears_nothing_is_deaf_after_a_while_whatever_it_writes_meanwhile() -> None:
    clock = Clock()
    bird = Canary(clock)
    bird.sent(7)
    while clock.now < 100 + HEARD_S:
        assert not bird.is_missing()
        clock.now += EVERY_S
        bird.sent(int(clock.now))
    clock.now += 1
    assert bird.is_missing()
    assert bird.ages_s()[0] > HEARD_S
    bird.heard(6)
    assert bird.is_missing(), "what it hears is from before it wrote"
    bird.heard(8)
    assert not bird.is_missing()


def test_a_watch_may_be_quicker_than_the_answer() -> None:
    clock = Clock()
    bird = Canary(clock)
    bird.heard(7)
    bird.sent(7)
    clock.now += 2 * HEARD_S
    assert not bird.is_missing()


def test_while_the_api_is_away_nobody_is_deaf() -> None:
    clock = Clock()
    bird = Canary(clock)
    bird.sent(7)
    clock.now += HEARD_S / 2
    bird.unsent()
    clock.now += HEARD_S
    assert not bird.is_missing()
    bird.sent(9)
    clock.now += HEARD_S / 2
    assert not bird.is_missing(), "counted from what was written since"


# --- on the API server -----------------------------------------------------------------------------------------------


@contextmanager
def running(kubeconfig: Path, namespace: str, health_port: int) -> Iterator[Service]:
    settings = Settings(namespace, namespace, "bird", INSTALLATION, health_port)
    service, stop = Service(settings, connect(str(kubeconfig)), silent()), threading.Event()
    thread = threading.Thread(target=service.run, args=(stop,))
    thread.start()
    try:
        yield service
    finally:
        stop.set()
        thread.join(40)
        assert not thread.is_alive()
        gc.collect()  # what kopf left open of connections that say nothing any more is told of here


def comes_to(port: int, code: int) -> str:
    deadline = time.monotonic() + 30
    while (answer := probed(port, "healthz"))[0] != code:
        assert time.monotonic() < deadline, f"{answer} has not come to {code}"
        time.sleep(0.2)
    return answer[1]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_operator_that_cannot_list_or_whose_watches_fell_silent_is_found_out_and_an_idle_one_is_left_alone(
    kubeconfig: Path, cluster: WatchedCluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quieten_kopf()
    monkeypatch.setattr(canary, "EVERY_S", 0.25)
    # Short, and yet longer than a call or two may take beside other tests.
    monkeypatch.setattr(canary, "HEARD_S", 30.0)
    monkeypatch.setattr("biclique_operator.service.RESYNC_S", 0.5)
    monkeypatch.setattr("biclique_operator.service.RESYNC_MAX_AGE_S", 8.0)
    monkeypatch.setattr("biclique_operator.cluster.TIMEOUT_S", (3.0, 3.0))
    port = processes.free_port()
    with relayed(kubeconfig, tmp_path) as (relay, through), running(through, namespace, port) as service:
        deadline = time.monotonic() + 30
        while cluster.get("ConfigMap", namespace, canary.NAME) is None:
            assert time.monotonic() < deadline, "it gives no sign of life"
            time.sleep(0.1)
        idle_until = time.monotonic() + 4.0
        while time.monotonic() < idle_until:
            assert probed(port, "healthz") == (200, "ok")
            time.sleep(0.2)
        while (
            max(service.sign_of_life.ages_s()) >= 3.0
        ):  # of one moment, which may be one that the machine spent elsewhere
            assert time.monotonic() < idle_until + 10, "by the watch, and through the queue"
            time.sleep(0.1)
        relay.cut(Way.BOTH)
        assert comes_to(port, 503) == "nothing could be listed for too long"
        relay.heal()
        comes_to(port, 200)
        # Lists that come to a connection which went deaf fail, too, and are tried again on another one.
        monkeypatch.setattr("biclique_operator.service.RESYNC_MAX_AGE_S", 60.0)
        monkeypatch.setattr(canary, "HEARD_S", 2.0)
        relay.deafen()
        assert comes_to(port, 503) == "what it writes as a sign of life is not heard of: watches tell nothing any more"
