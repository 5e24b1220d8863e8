"""What tiers and runs do when something that they need is away, or fails again and again: work on, or end with one
sentence. Most of it is waiting, so the slowest of it goes on beside the others."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from biclique.ports.control import State
from biclique.ports.control_folder import ControlFolder
from biclique.ports.run_state import load_state
from infra import processes
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.processes import workers_of
from tests.dataplane.query import BICLIQUE, MANIFEST, KafkaQuery
from tests.dataplane.test_tiers import TIERS, matches

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
DONE, FAILED = 0, 4
LOOK_S = 0.5  # a unit is killed when it has run for no longer than that
TO_FILES = MANIFEST.partition("  topics:")[0] + "  output: {{files: {{path: out, format: json}}}}\n"


class CrashLoop:
    """A dispatcher tier whose units are killed as soon as they are there, as by a machine that is out of memory."""

    def __init__(self, kafka: KafkaServer, redis: RedisServer, folder: Path) -> None:
        self.query = KafkaQuery(kafka, redis, folder)
        self.query.start("dispatcher")
        self._thread = threading.Thread(target=self._kill, args=(self.query.processes["dispatcher"],), daemon=True)
        self._thread.start()

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        while driver.poll() is None:
            for worker in workers_of(driver.pid):
                with suppress(ProcessLookupError):  # its driver has ended it meanwhile
                    os.kill(worker, 9)
            time.sleep(LOOK_S)


@pytest.fixture(scope="module", autouse=True)
def crash_loop(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[CrashLoop]:
    """It takes a minute and a half of waiting, longer and longer, until its restarts are used up."""
    loop = CrashLoop(kafka_server, redis_server, tmp_path_factory.mktemp("crash-loop"))
    yield loop
    loop.query.stop()


@pytest.mark.usefixtures("redis_program")
def test_without_a_redis_everything_is_joined_and_it_is_said(kafka_server: KafkaServer, tmp_path: Path) -> None:
    away = RedisServer(tmp_path / "redis", processes.free_port())
    query = KafkaQuery(kafka_server, away, tmp_path)
    keys = [number % 50 for number in range(500)]
    try:
        for side in ("r", "s"):
            query.produce_rows(side, keys, 0)
        for tier in TIERS:
            query.start(tier)
        wanted = matches(keys, keys)
        assert query.results(wanted.total(), 180) == wanted, query.log_of("joiner")
        said = [json.loads(line) for line in query.log_of("joiner").splitlines() if line.startswith("{")]
        (away_said,) = [line["message"] for line in said if line["event"] == "checkpoints.away" and not line["unit"]]
        assert away_said.startswith(f"Redis at 127.0.0.1:{away.port}")
        assert away_said.endswith("(waited 5 s); units work on without checkpoints until then")
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()


def test_a_run_whose_brokers_fall_silent_asks_and_ends_and_goes_on_when_they_are_back(
    redis_server: RedisServer, tmp_path: Path
) -> None:
    """It has chosen where it ends before it reads: between the two they go."""
    server = KafkaServer(tmp_path / "kafka", processes.free_port(), processes.free_port())
    state = tmp_path / "state"

    def chosen() -> bool:
        known = load_state(state) if state.exists() else None
        return known is not None and bool(known.sources) and all(source.spans for source in known.sources)

    def started() -> subprocess.Popen[bytes]:
        with (tmp_path / "log").open("wb") as log:
            command = [BICLIQUE, "run", query.manifest, "--checkpoint", state]
            return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def said() -> list[str]:
        return (tmp_path / "log").read_text().splitlines()

    broker = server.start()
    try:
        query = KafkaQuery(server, redis_server, tmp_path, template=TO_FILES)
        for side in ("r", "s"):
            query.produce_rows(side, [1, 2, 3], 0)
        run = started()
        try:
            deadline = time.monotonic() + 60
            while not chosen():
                assert run.poll() is None and time.monotonic() < deadline, said()
                time.sleep(0.005)
            broker.kill()
            broker.wait()
            assert run.wait(120) == FAILED, said()
        finally:
            run.kill()
            run.wait()
        assert said()[-1].startswith("biclique: Kafka does not answer while looking at the ends of topic")
        assert (
            "; correct bootstrapServers, or wait for it: the same command goes on from here: biclique run" in said()[-1]
        )
        broker = server.start()
        run = started()
        assert run.wait(60) == DONE, said()
    finally:
        broker.kill()
        broker.wait()
    rows = [json.loads(line) for path in (tmp_path / "out").glob("part-*") for line in path.read_text().splitlines()]
    assert sorted((row["rv"], row["sv"]) for row in rows) == [(0, 0), (1, 1), (2, 2)]


def test_a_unit_that_is_killed_again_and_again_ends_its_tier_with_one_sentence(crash_loop: CrashLoop) -> None:
    query = crash_loop.query
    assert query.exit_of("dispatcher", 240) == FAILED, query.log_of("dispatcher")
    said = [json.loads(line) for line in query.log_of("dispatcher").splitlines() if line.startswith("{")]
    unit, words = said[-1]["message"].split(" has ", 1)
    assert unit in ("dispatcher 0", "dispatcher 1")
    assert words.startswith("failed 9 times in a row, and is not started again: ")
    assert "Traceback" not in query.log_of("dispatcher")
    told = ControlFolder(query.folder / "control").conditions()[unit]
    assert told.state is State.STOPPED and told.why == f"it has {words}"
