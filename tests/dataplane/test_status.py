"""Drivers that say how they are, as pods do: probes and figures while rows flow, units that ask their driver instead of
the control port, a driver that is killed, and one that is told to end."""

from __future__ import annotations

import json
import random
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import processes
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.chaos.processes import resident_of
from tests.chaos.relay import Relay, Way
from tests.dataplane.query import MANIFEST, KafkaQuery
from tests.dataplane.test_tiers import TIERS, matches

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

GIB = 1 << 30
FOUR_DISPATCHERS = MANIFEST.replace("partitions: 2", "partitions: 4")  # as by default, each a process
READY_S, ENDS_S = 120.0, 20.0


class Drivers:
    """Of one query, each with a port of its own."""

    def __init__(self, query: KafkaQuery) -> None:
        self.query = query
        self.ports = {tier: processes.free_port() for tier in TIERS}

    def start(self, tier: str) -> None:
        self.query.start(tier, BICLIQUE_STATUS_PORT=str(self.ports[tier]))

    def ask(self, tier: str, path: str) -> tuple[int, str]:
        """0: nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[tier]}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read().decode()
        except OSError:
            return 0, ""

    def status(self, tier: str) -> dict[str, Any]:
        code, text = self.ask(tier, "/status")
        assert code == 200
        found: dict[str, Any] = json.loads(text)
        return found

    def says(self, tier: str, *keys: str) -> Any:
        """What is there now; None: it did not answer in time."""
        code, text = self.ask(tier, "/status")
        found = json.loads(text) if code == 200 else None
        for key in keys:
            found = None if found is None else found[key]
        return found

    def until(self, what: str, done: Callable[[], bool], seconds: float = READY_S) -> float:
        """How long it took."""
        began = time.monotonic()
        while not done():
            assert time.monotonic() < began + seconds, f"{what}: {[self.query.log_of(tier) for tier in TIERS]}"
            time.sleep(0.1)
        return time.monotonic() - began

    def ready(self, tier: str) -> bool:
        return self.ask(tier, "/ready")[0] == 200


def test_drivers_say_how_they_are_and_their_units_ask_them(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    query, rng = KafkaQuery(kafka_server, redis_server, tmp_path, template=FOUR_DISPATCHERS), random.Random(5)
    drivers = Drivers(query)
    keys: dict[str, list[int]] = {"r": [], "s": []}

    def flow() -> None:
        for side, known in keys.items():
            fresh = [rng.randrange(5_000) for _ in range(10_000)]
            query.produce_rows(side, fresh, len(known))
            known.extend(fresh)

    def all_there() -> None:
        wanted = matches(keys["r"], keys["s"])
        found = query.results(wanted.total(), 120)
        missing, more = (wanted - found).total(), (found - wanted).total()
        logs = "\n".join(query.log_of(tier) for tier in TIERS)
        assert (missing, more) == (0, 0), "\n".join([*(str(drivers.ask(tier, "/status")) for tier in TIERS), logs])

    try:
        for tier in TIERS:
            drivers.start(tier)
        drivers.until("a driver answers", lambda: all(drivers.ask(tier, "/alive")[0] == 200 for tier in TIERS))
        code, why = drivers.ask("joiner", "/ready")
        assert code == 200 or why, "it says why it is not ready"
        drivers.until("all are ready", lambda: all(map(drivers.ready, TIERS)))
        flow()
        all_there()

        joiner = drivers.status("joiner")
        assert (joiner["tier"], joiner["subgroup"], joiner["attempt"], joiner["ready"]) == ("joiner", None, 1, True)
        assert set(joiner["units"]) == {"0L0.0", "0R0.0"}
        assert {unit["state"] for unit in joiner["units"].values()} == {"runs"}
        drivers.until("all rows are stored", lambda: drivers.says("joiner", "figures", "state_rows") == 20_000)
        figures = drivers.status("joiner")["figures"]
        assert figures["state_bytes"] > 20_000 * 8
        assert 0 <= figures["load"] <= 1
        assert figures["checkpoint_age_s"] is not None
        assert all(unit["epoch"] > 0 for unit in drivers.status("dispatcher")["units"].values())
        assert set(drivers.status("shuffler")["units"]) == {"r", "s"}
        drivers.until("nothing is left to be read", lambda: drivers.says("shuffler", "figures", "lag_rows") == 0)
        taken = {tier: resident_of(query.session(tier)) for tier in TIERS}
        print("resident:", {tier: f"{size / GIB:.2f} GiB" for tier, size in taken.items()})
        assert max(taken.values()) < 1.2 * GIB, taken

        query.kill("joiner")
        assert drivers.ask("joiner", "/ready")[0] == 0
        flow()
        drivers.start("joiner")
        print(f"ready again after {drivers.until('it is ready again', lambda: drivers.ready('joiner')):.1f} s")
        assert drivers.status("joiner")["attempt"] == 2
        all_there()

        for tier in TIERS:
            query.processes[tier].send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert {tier: query.exit_of(tier, ENDS_S) for tier in TIERS} == dict.fromkeys(TIERS, 0)
        print(f"told to end, and ended in {time.monotonic() - began:.1f} s")
        assert not any("units.cancelled" in query.log_of(tier) for tier in TIERS), "they came to an end by themselves"
    finally:
        query.stop()


def test_a_query_in_kubernetes_flows_on_while_the_api_is_away(
    kafka_server: KafkaServer,
    redis_server: RedisServer,
    routing_config_map: str,
    kubernetes_cut: Relay,
    tmp_path: Path,
) -> None:
    """Its control port is a ConfigMap that drivers alone know."""
    query = KafkaQuery(kafka_server, redis_server, tmp_path, control=routing_config_map)
    drivers, keys = Drivers(query), list(range(1_000))
    try:
        for tier in TIERS:
            drivers.start(tier)
        drivers.until("all are ready", lambda: all(map(drivers.ready, TIERS)))
        for side in ("r", "s"):
            query.produce_rows(side, keys, 0)
        assert query.results(len(keys), 60).total() == len(keys), query.log_of("joiner")
        kubernetes_cut.cut(Way.BOTH)
        for side in ("r", "s"):
            query.produce_rows(side, keys, len(keys))
        wanted = matches(2 * keys, 2 * keys)
        assert query.results(wanted.total(), 60) == wanted, query.log_of("joiner")
        drivers.until("all are ready with the API away", lambda: all(map(drivers.ready, TIERS)), 15)
        kubernetes_cut.heal()
        query.kill("joiner")
        drivers.start("joiner")
        drivers.until("it is ready again", lambda: drivers.ready("joiner"))
        assert drivers.status("joiner")["attempt"] == 2
        assert query.stop() == dict.fromkeys(TIERS, 0)
    finally:
        query.stop()
