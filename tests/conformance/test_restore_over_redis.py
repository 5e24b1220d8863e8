"""A joiner unit that restarts over a real Redis in which something is damaged: from an older checkpoint, or from the
log alone, and with the same state."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import redis

from biclique.hosts.perform import Performer, start_unit
from biclique.plan.table import first_table
from biclique.ports.memory import MemoryLog
from biclique.ports.patient_store import PatientStore
from biclique.ports.redis_store import RedisStore, connected
from biclique.routing.protocol import Role
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Consult, Orders, Publication, PublishManifest, Read, Rest
from biclique.tiers.joiner import Joiner
from biclique.tiers.joiner_limits import JoinerLimits
from biclique.tiers.loops import Watch, joiner_loop
from biclique.tiers.messages import Block, unit_address
from biclique.tiers.state import BlobRows
from infra.redis_server import RedisServer
from tests.unit.tiers.building import plan, rows, signal

MADE = replace(plan("SELECT r.v AS v FROM r JOIN s ON r.k = s.k"), dispatchers=1)
TABLE = first_table(MADE)
UNIT = TABLE.units_of_stage(0)[0]
SIDE, SENDER = UNIT.subgroup.side, dispatcher_producer(0)
LIMITS = JoinerLimits(blob_rows=BlobRows(1, 2))
CHECKPOINTS, EPOCHS = 3, 5


@dataclass
class Restart:
    joiner: Joiner
    replayed_from: int
    published: list[object]


class Unit:
    """Its log stays; each `live` is another process."""

    def __init__(self, server: RedisServer, prefix: str) -> None:
        self.log, self.prefix = MemoryLog(), prefix
        self.raw = redis.Redis(port=server.port)
        self.url = server.url
        self.epoch = 0
        start_unit(self.log.client(), UNIT, TABLE, 0)

    def flow(self) -> None:
        for _ in range(EPOCHS):
            self.epoch += 1
            columns = [[self.epoch] for _ in MADE.stages[0].sides[SIDE].columns]
            block = Block(0, SIDE, Role.STORE, SENDER, self.epoch, rows([self.epoch], [0], *columns))
            self.log.append(unit_address(UNIT), [block, signal(SENDER, self.epoch)])

    def live(self, seal: bool) -> Restart:
        inner = RedisStore(connected(self.url), self.prefix)
        store = PatientStore(inner, "Redis", inner.cut)
        perform = Performer(self.log.client(), store, lambda _: TABLE, Orders, lambda: 0, lambda _: None)
        watch, reads, published = Watch(), list[int](), list[object]()
        loop = joiner_loop(MADE, UNIT, LIMITS, watch=watch)
        effect = next(loop)
        while not isinstance(effect, Rest):
            due = seal and Publication.PUBLISHED not in published and self._handled(watch)
            answer = Orders(seal=due) if isinstance(effect, Consult) else perform(effect)
            if isinstance(effect, Read):
                reads.append(effect.offset)
            if isinstance(effect, PublishManifest):
                published.append(answer)
            effect = loop.send(answer)
        assert watch.joiner is not None and self._handled(watch)
        return Restart(watch.joiner, reads[0], published)

    def _handled(self, watch: Watch) -> bool:
        return watch.joiner is not None and watch.joiner.frontier == self.epoch

    def blobs(self) -> list[str]:
        """In the order in which they were made."""
        return sorted(key.decode() for key in self.raw.scan_iter(f"biclique:{{{self.prefix}}}:blob:*"))


@pytest.fixture
def unit(redis_server: RedisServer) -> Iterator[Unit]:
    made = Unit(redis_server, f"restore-{uuid.uuid4()}")
    for _ in range(CHECKPOINTS):
        made.flow()
        made.live(seal=True)
    yield made
    made.raw.close()


def stored(joiner: Joiner) -> list[int]:
    return [stamp for store in joiner.states[SIDE].stores for stamp in store.rows_from(0, 1000, 1 << 30)[0].stamps]


def truncated(data: bytes) -> bytes:
    return data[: len(data) // 2]


def corrupted(data: bytes) -> bytes:
    return data[:40] + bytes([data[40] ^ 4]) + data[41:]


def test_from_the_newest_checkpoint_where_nothing_is_wrong(unit: Unit) -> None:
    restart = unit.live(seal=False)
    assert restart.replayed_from == 2 * EPOCHS * CHECKPOINTS
    assert len(stored(restart.joiner)) == EPOCHS * CHECKPOINTS


@pytest.mark.parametrize("damage", [truncated, corrupted, None], ids=["truncated", "corrupted", "gone"])
@pytest.mark.parametrize("which", ["the last", "the first"])
def test_from_an_older_one_or_from_the_log_where_a_blob_is_damaged(
    unit: Unit, damage: Callable[[bytes], bytes] | None, which: str
) -> None:
    """The last blob is the newest checkpoint's alone; the first is in all of them."""
    key = unit.blobs()[-1 if which == "the last" else 0]
    data = unit.raw.get(key)
    assert isinstance(data, bytes)
    if damage is None:
        unit.raw.delete(key)
    else:
        unit.raw.set(key, damage(data))
    restart = unit.live(seal=True)
    assert restart.replayed_from == (2 * EPOCHS * (CHECKPOINTS - 1) if which == "the last" else 0)
    assert len(stored(restart.joiner)) == len(set(stored(restart.joiner))) == EPOCHS * CHECKPOINTS
    assert restart.published == [Publication.PUBLISHED]
    assert unit.live(seal=False).replayed_from == 2 * EPOCHS * CHECKPOINTS, "the next restart is quick again"


def test_from_the_log_where_all_of_redis_is_gone(unit: Unit) -> None:
    for key in unit.raw.scan_iter(f"biclique:{{{unit.prefix}}}:*"):
        unit.raw.delete(key)
    restart = unit.live(seal=True)
    assert restart.replayed_from == 0
    assert len(stored(restart.joiner)) == EPOCHS * CHECKPOINTS
    assert unit.live(seal=False).replayed_from == 2 * EPOCHS * CHECKPOINTS
