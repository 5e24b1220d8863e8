"""Tiers that start at once begin the same query: each owner gets its first progress, whoever fences whom."""

from __future__ import annotations

import random
from dataclasses import dataclass

from biclique.hosts.units.founding import begin_owners
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.log import LogClient
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, Fetched, Outcome
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Address, Producer
from biclique.tiers.progress import Progress
from tests.simulation.fake_log import FakeLog

MANIFEST = """\
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: founded}
spec:
  sources:
    - {name: r, schema: "k INT", kafka: {bootstrapServers: "kafka:9092", topic: r, format: json}}
    - {name: s, schema: "k INT", kafka: {bootstrapServers: "kafka:9092", topic: s, format: json}}
  sql: "SELECT COUNT(*) AS n FROM r JOIN s ON r.k = s.k"
  output: {kafka: {bootstrapServers: "kafka:9092", topic: out, format: json}}
"""


@dataclass
class Crowd:
    """A client beside which another process begins the same owners: now and then it fences first, and sometimes it
    commits too."""

    client: LogClient
    other: LogClient
    rng: random.Random

    def commit(self, transaction: Commit) -> Outcome:
        if self.rng.random() < 0.6:
            self.other.fence(transaction.producer)
            if self.rng.random() < 0.5:
                assert self.other.commit(transaction) is Outcome.COMMITTED
        return self.client.commit(transaction)

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        return self.client.read(address, offset, limit)

    def fence(self, producer: Producer) -> int:
        return self.client.fence(producer)

    def read_progress(self, owner: Producer) -> Progress | None:
        return self.client.read_progress(owner)


def owners_of(plan: Plan) -> list[Producer]:
    units = [joiner_producer(unit) for unit in first_table(plan).units()]
    dispatchers = [dispatcher_producer(number) for number in range(plan.dispatchers)]
    return [*units, *dispatchers, *(merger_producer(number) for number in range(plan.mergers))]


def test_every_owner_has_begun_though_others_begin_it_too() -> None:
    plan = make_plan(compile_manifest(MANIFEST))
    for seed in range(5):
        log = FakeLog()
        begin_owners(
            plan, Crowd(log.client(), log.client(), random.Random(seed)), first_table(plan), lambda unit: 0, {}
        )
        assert all(log.client().read_progress(owner) is not None for owner in owners_of(plan))
