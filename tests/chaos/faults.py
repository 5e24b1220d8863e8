"""Each fault as one function of the stage: what strikes, how long, and what was seen of it meanwhile.

A fault returns when it is over: the process is dead, the network has healed, the server is back. That everything has
recovered is not its business; whoever calls it looks at what comes out (run.py).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

import redis

from tests.chaos.keeper import Kept
from tests.chaos.processes import java_of, signal_session, workers_of
from tests.chaos.relay import Relay, Way
from tests.chaos.stage import WITH_REDIS, Stage


@dataclass(frozen=True)
class Durations:
    """Seconds. `zombie`: that a process stands still while its successor runs: past every time-out of ours, of which
    the longest is that of a transaction (ports/kafka_log.py). `over`: that it is given to find out."""

    cut: float = 30.0
    still: float = 30.0
    zombie: float = 70.0
    over: float = 30.0
    store: float = 20.0


BRIEF = Durations(cut=12.0, still=8.0, zombie=20.0, over=15.0, store=8.0)


@dataclass(frozen=True)
class Striking:
    stage: Stage
    victim: str
    rng: random.Random
    durations: Durations


Strike = Callable[[Striking], str]


@dataclass(frozen=True)
class Fault:
    """`victims`: tiers, or the server that it strikes. `kill`: counts among the kills of a run."""

    name: str
    strike: Strike
    victims: tuple[str, ...]
    kill: bool = False


# --- processes -------------------------------------------------------------------------------------------------------


def _up(stage: Stage, tier: str) -> int:
    """The session of a tier that is up; it may be about to be started again."""
    deadline = time.monotonic() + 60
    while (session := stage.keeper.session(tier)) is None:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{tier} does not come back")
        time.sleep(0.05)
    return session


def kill_all(at: Striking) -> str:
    """The whole node: driver, Java, Python workers."""
    signal_session(_up(at.stage, at.victim), signal.SIGKILL)
    return ""


def kill_twice(at: Striking) -> str:
    """And again while its successor starts."""
    kill_all(at)
    time.sleep(at.rng.uniform(1, 9))
    kill_all(at)
    return ""


def kill_driver(at: Striking) -> str:
    """Only the driver's Python. What is left of its node goes a moment later, as a pod does (keeper.py)."""
    os.kill(_up(at.stage, at.victim), signal.SIGKILL)
    return ""


def kill_java(at: Striking) -> str:
    """In local mode the executor's Java is the driver's. The driver must end with it: nothing of it can go on."""
    return _until_there(at, lambda session: [] if (pid := java_of(session)) is None else [pid])


def kill_worker(at: Striking) -> str:
    return _until_there(at, workers_of)


def _until_there(at: Striking, pids: Callable[[int], list[int]]) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(IndexError, ProcessLookupError):  # none is there, or it has ended meanwhile
            os.kill(at.rng.choice(pids(_up(at.stage, at.victim))), signal.SIGKILL)
            return ""
        time.sleep(0.05)
    return "nothing there to kill"


def stand_still(at: Striking) -> str:
    session = _up(at.stage, at.victim)
    signal_session(session, signal.SIGSTOP)
    time.sleep(at.durations.still)
    signal_session(session, signal.SIGCONT)
    return ""


def zombie(at: Striking) -> str:
    """It stands still past every time-out, its successor runs, it comes back."""
    stage = at.stage
    signal_session(_up(stage, at.victim), signal.SIGSTOP)
    before = stage.keeper.succeed(at.victim)
    time.sleep(at.durations.zombie)
    signal_session(before.process.pid, signal.SIGCONT)
    return f"the zombie {_end_of(before, at.durations.over)}"


def _end_of(zombie: Kept, limit_s: float) -> str:
    try:
        code = zombie.process.wait(limit_s)
    except subprocess.TimeoutExpired:
        signal_session(zombie.process.pid, signal.SIGKILL)
        zombie.process.wait()
        return f"ran on for {limit_s:.0f} s, then its node went"
    signal_session(zombie.process.pid, signal.SIGKILL)
    fenced = "fenced by a newer instance" in zombie.log.read_text(errors="replace")  # librdkafka's own words
    return f"ended by itself with code {code}" + (", Kafka refused its commits" if fenced else "")


# --- Kafka -----------------------------------------------------------------------------------------------------------


def restart_broker(at: Striking) -> str:
    at.stage.restart_broker()
    return ""


def broker_stands_still(at: Striking) -> str:
    at.stage.broker.send_signal(signal.SIGSTOP)
    time.sleep(at.durations.still)
    at.stage.broker.send_signal(signal.SIGCONT)
    return ""


# --- the network -----------------------------------------------------------------------------------------------------


def cut_from_kafka(way: Way) -> Strike:
    return lambda at: _cut(at.stage.to_kafka[at.victim], way, at.durations.cut)


def cut_from_redis(way: Way) -> Strike:
    return lambda at: _cut(at.stage.to_redis[at.victim], way, at.durations.cut)


def _cut(relay: Relay, way: Way, seconds: float) -> str:
    relay.cut(way)
    time.sleep(seconds)
    relay.heal()
    return ""


# --- Redis -----------------------------------------------------------------------------------------------------------


def kill_redis(at: Striking) -> str:
    """It keeps nothing on disk: whatever it held is gone, too."""
    at.stage.restart_redis()
    return ""


def redis_down(at: Striking) -> str:
    at.stage.checkpoints.kill()
    at.stage.checkpoints.wait()
    time.sleep(at.durations.store)
    at.stage.checkpoints = at.stage.redis.start()
    return ""


def flush_redis(at: Striking) -> str:
    """And its owner must begin anew with what is left: the log."""
    at.stage.redis_client().flushall()
    return kill_all(at)


def redis_out_of_memory(at: Striking) -> str:
    client = at.stage.redis_client()
    client.config_set("maxmemory", "1mb")
    time.sleep(at.durations.store)
    client.config_set("maxmemory", at.stage.redis.memory)
    return ""


def redis_slow(at: Striking) -> str:
    """Every answer takes up to five seconds."""
    client, until = at.stage.redis_client(), time.monotonic() + at.durations.store
    while time.monotonic() < until:
        client.execute_command("CLIENT", "PAUSE", "5000", "ALL")
        time.sleep(5.2)
    return ""


def redis_wrong_password(at: Striking) -> str:
    """Set while it runs, and every connection dropped, so that each has to sign in anew."""
    client = at.stage.redis_client()
    client.config_set("requirepass", "another")
    client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    time.sleep(at.durations.store)
    client.config_set("requirepass", "")
    return ""


def truncate_blobs(at: Striking) -> str:
    return _damage(at, lambda blob: blob[: at.rng.randrange(len(blob))])


def corrupt_blobs(at: Striking) -> str:
    def flip(blob: bytes) -> bytes:
        place = at.rng.randrange(len(blob))
        return blob[:place] + bytes([blob[place] ^ (1 << at.rng.randrange(8))]) + blob[place + 1 :]

    return _damage(at, flip)


def _damage(at: Striking, change: Callable[[bytes], bytes]) -> str:
    """Half of the blobs; then their owner is killed and must find out."""
    client = at.stage.redis_client()
    names = sorted(_blobs(client))
    struck = at.rng.sample(names, -(-len(names) // 2))
    for name in struck:
        blob = client.get(name)
        if isinstance(blob, bytes) and blob:
            client.set(name, change(blob), keepttl=True)
    kill_all(at)
    return f"{len(struck)} of {len(names)} blobs"


def _blobs(client: redis.Redis) -> Iterator[bytes]:
    yield from client.scan_iter("biclique:*:blob:*", count=1000)


# --- all of them -----------------------------------------------------------------------------------------------------

ALL = ("shuffler", "dispatcher", "joiner", "merger")
UNITS = ("dispatcher", "joiner", "merger")
FAULTS = (
    Fault("kill -9 of all its processes", kill_all, ALL, kill=True),
    Fault("kill -9 twice in a row", kill_twice, ALL, kill=True),
    Fault("kill -9 of the driver's Python", kill_driver, ALL, kill=True),
    Fault("kill -9 of its Java", kill_java, ALL, kill=True),
    Fault("kill -9 of a Python worker", kill_worker, ALL, kill=True),
    Fault("stands still, goes on", stand_still, ALL),
    Fault("stands still, comes back as a zombie", zombie, ALL),
    Fault("broker killed and started again", restart_broker, ("kafka",)),
    Fault("broker stands still", broker_stands_still, ("kafka",)),
    *(Fault(f"cut off from Kafka, {way.value}", cut_from_kafka(way), ALL) for way in Way),
    *(Fault(f"cut off from Redis, {way.value}", cut_from_redis(way), WITH_REDIS) for way in Way),
    Fault("Redis killed and started again", kill_redis, ("redis",)),
    Fault("Redis down for long", redis_down, ("redis",)),
    Fault("Redis flushed, its owner killed", flush_redis, WITH_REDIS),
    Fault("Redis out of memory", redis_out_of_memory, ("redis",)),
    Fault("Redis slow", redis_slow, ("redis",)),
    Fault("Redis with another password", redis_wrong_password, ("redis",)),
    Fault("checkpoint truncated, its owner killed", truncate_blobs, WITH_REDIS),
    Fault("checkpoint corrupted, its owner killed", corrupt_blobs, WITH_REDIS),
)
