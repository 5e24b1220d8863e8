"""What dispatchers make of time over real topics, without a joiner: where a query begins, who holds the watermark back
and for how long; and that they follow the control port, whatever becomes of the shuffler's folder meanwhile."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from biclique.hosts.shuffle.scratch import NAMED
from biclique.ports.control import Pause
from biclique.ports.control_folder import ControlFolder
from biclique.tiers.dispatcher import ACCEPTED, LATE
from biclique.tiers.messages import UNREAD, Address, Topic
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from tests.dataplane.query import MANIFEST, KafkaQuery
from tests.dataplane.signals import Newest, Signals

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]
IDLE_S, LATENESS_S = 4.0, 1.0
KNOWN_S = (
    14.0  # a heartbeat a second, a micro-batch and a transaction behind it, on a machine that does other things too
)
TIMED = MANIFEST.replace(
    '"k INT, v BIGINT"', '"k INT, v BIGINT, at TIMESTAMP"\n      eventTime: {{column: at, lateness: 1s, idleAfter: 4s}}'
).replace("topic: {name}-r, format: json", 'topic: {name}-r, startingOffsets: "{begin}"')
R, IDLE, BESIDE = (
    1,
    0,
    1,
)  # the partition of r that flows; the dispatcher that has no other, and the one that has s, too


def iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


class Timed:
    """Rows by their event time, in seconds since an hour ago."""

    def __init__(self, kafka: KafkaServer, redis: RedisServer, folder: Path) -> None:
        self.began = round(time.time()) - 3600
        template = TIMED.replace("{begin}", iso(self.began + 1800))
        self.query = KafkaQuery(kafka, redis, folder, "r.k = s.k WITHIN 1 HOUR", template=template)
        self.sent = {"r": 0, "s": 0}

    def row(self, side: str, at_s: float, appended_s: float = 3000) -> None:
        value = b'{"k": 1, "v": %d, "at": "%s"}' % (self.sent[side], iso(self.began + at_s).encode())
        partition, appended_ms = (R if side == "r" else 0), round(1000 * (self.began + appended_s))
        self.query.produce(side, value, partition=partition, time_ms=appended_ms)
        assert self.query.producer.flush(30) == 0
        self.sent[side] += 1

    def stands_at(self, at_s: float, *dispatchers: int) -> Callable[[Newest], bool]:
        """Their watermarks are those of a newest row of this time, and never beyond."""
        wanted = round(1e6 * (self.began + at_s - LATENESS_S))

        def stand(newest: Newest) -> bool:
            found = [newest[number].watermark for number in dispatchers if number in newest]
            assert max(found, default=wanted) <= wanted, "the watermark runs ahead"
            return found == [wanted] * len(dispatchers)

        return stand


def test_idle_partitions_hold_nothing_back_for_longer_than_they_may_and_others_do(
    kafka_server: KafkaServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    timed = Timed(kafka_server, redis_server, tmp_path)
    query = timed.query
    try:
        timed.row("r", 2000, appended_s=600)  # not to be read: the watermark would stand there
        timed.row("r", 10)
        for tier in ("dispatcher", "shuffler"):
            query.start(tier)
        query.founded(120)
        with Signals(query) as signals:
            # Neither s nor the other partition of r has ever had a record. Were all idle, the watermark would stay.
            signals.until(timed.stands_at(10, IDLE, BESIDE), 120, lambda: timed.row("r", 10))
            timed.row("s", 5)  # late by now
            timed.row("s", 20)
            signals.until(lambda newest: signals.progress(BESIDE).fates[ACCEPTED][1] == 1, 60)
            timed.row("r", 100)
            # Both flow: s may be silent for a few seconds only, and be as good as r then.
            signals.until(timed.stands_at(20, BESIDE), 60, lambda: timed.row("s", 20))

            last = [0.0, 0.0]

            def flows(*sides: str) -> Callable[[], None]:
                def flow() -> None:
                    for side in sides:
                        began = time.monotonic()
                        timed.row(side, 20 if side == "s" else 100)
                        if side == "s":
                            last[:] = began, time.monotonic()

                return flow

            until = time.monotonic() + IDLE_S + 3
            held = timed.stands_at(20, IDLE, BESIDE)
            signals.until(lambda newest: held(newest) and time.monotonic() > until, 60, flows("r", "s"))
            moved = signals.until(timed.stands_at(100, BESIDE), 60, flows("r"))
            signals.until(timed.stands_at(100, IDLE), 10, flows("r"))
            print(f"held back for {moved - last[1]:.2f} s of {IDLE_S} s")
            assert last[0] + IDLE_S <= moved <= last[1] + IDLE_S + KNOWN_S

            follows_the_control_port(query, signals)
            a_paused_source_holds_time_back(timed, signals)

            # As a whole: Spark is writing there.
            scratch = scratch_of(query)
            gone = scratch.rename(scratch.with_name(f"gone-{scratch.name}"))
            shutil.rmtree(gone, ignore_errors=True)
            timed.row("r", 200)
            signals.until(timed.stands_at(200, BESIDE), 90, lambda: timed.row("r", 200))
            everything = timed.sent["r"] - 1, timed.sent["s"] - 1
            signals.until(lambda newest: signals.progress(BESIDE).fates[ACCEPTED] == everything, 60)
            assert signals.progress(BESIDE).fates[LATE] == (0, 1)
            assert signals.progress(IDLE).fates.get(ACCEPTED, (0, 0)) == (0, 0)
        assert query.stop() == {"dispatcher": 0, "shuffler": 0}
    finally:
        query.stop()


def scratch_of(query: KafkaQuery) -> Path:
    """Spark's checkpoint folder: the shuffler's process has a lock on it."""
    for each in Path(f"/proc/{query.session('shuffler')}/fd").iterdir():
        with suppress(OSError):  # closed meanwhile
            if (place := Path(os.readlink(each))).name.startswith(NAMED):
                return place
    raise AssertionError("it has none")


def follows_the_control_port(query: KafkaQuery, signals: Signals) -> None:
    """Another version of the routing table is announced by each, from an epoch on that is above the one before."""
    control = ControlFolder(query.folder / "control")
    first = control.table(None)
    assert first is not None and first.version == 0
    before = dict(signals.look())
    control.publish(replace(first, version=1, switch={0: max(signal.first_epoch for signal in before.values())}))
    signals.until(lambda newest: all(signal.version == 1 for signal in newest.values()), 30)
    assert all(signals.newest[number].first_epoch > signal.epoch for number, signal in before.items())


def a_paused_source_holds_time_back(timed: Timed, signals: Signals) -> None:
    """s is idle when it pauses. What comes then is not read, and must not be late when it is: so the shuffler says that
    there may be something unread, and s holds the watermark for as long as it lasts."""
    control, shuffled = ControlFolder(timed.query.folder / "control"), Address(Topic.SHUFFLED, BESIDE)
    before, known = signals.log.written_to(shuffled), signals.progress(BESIDE).fates[ACCEPTED][1]
    control.pause("s", Pause("by a test"))
    said: list[int] = []

    def unread(newest: Newest) -> bool:
        beats = signals.beats(BESIDE, before)
        said[:] = [at for at, beat in beats if (beat.source, beat.position) == (1, UNREAD)]
        return bool(said)

    signals.until(unread, 30)
    timed.row("s", 120)
    signals.until(lambda newest: signals.progress(BESIDE).offset > said[0], 30)
    until, held = time.monotonic() + IDLE_S + 3, timed.stands_at(100, IDLE, BESIDE)
    signals.until(lambda newest: held(newest) and time.monotonic() > until, 60, lambda: timed.row("r", 150))
    assert signals.progress(BESIDE).fates[ACCEPTED][1] == known
    control.resume("s")
    before = timed.sent["s"]

    def both_flow() -> None:
        timed.row("r", 150)
        timed.row("s", 120)

    signals.until(timed.stands_at(120, BESIDE), 60, both_flow)
    wanted = known + 1 + timed.sent["s"] - before
    signals.until(lambda newest: signals.progress(BESIDE).fates[ACCEPTED][1] == wanted, 30)
