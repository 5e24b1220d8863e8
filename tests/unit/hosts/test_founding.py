"""Tiers that start at once begin the same query: each owner gets its first progress, whoever fences whom."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass
from pathlib import Path

import pytest

from biclique.hosts.units.founding import (
    ATTEMPTS,
    NotFounded,
    begin_owners,
    owners_of,
    publish_first,
    refuse_lost_tables,
)
from biclique.hosts.units.patience import patiently
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control_folder import ControlFolder
from biclique.ports.log import LogClient
from biclique.ports.refusals import Refused
from biclique.query.compile import compile_manifest
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, Fetched, Outcome
from biclique.tiers.messages import Address, Producer
from biclique.tiers.progress import DispatcherProgress, Progress
from tests.simulation.fake_log import FakeLog
from tests.unit.tiers.on_topics import on_topics

COUNT = "SELECT COUNT(*) AS n FROM r JOIN s ON r.k = s.k"
MANIFEST = on_topics(COUNT)


@dataclass
class Crowd:
    """A client beside which another process begins the same owners: now and then (`fences`) it fences first, and
    sometimes (`commits`) it commits too."""

    client: LogClient
    other: LogClient
    rng: random.Random
    fences: float = 0.6
    commits: float = 0.5

    def commit(self, transaction: Commit) -> Outcome:
        if self.rng.random() < self.fences:
            self.other.fence(transaction.producer)
            if self.rng.random() < self.commits:
                assert self.other.commit(transaction) is Outcome.COMMITTED
        return self.client.commit(transaction)

    def read(self, address: Address, offset: int, limit: int) -> Fetched:
        return self.client.read(address, offset, limit)

    def fence(self, producer: Producer) -> int:
        return self.client.fence(producer)

    def read_progress(self, owner: Producer) -> Progress | None:
        return self.client.read_progress(owner)


def test_every_owner_has_begun_though_others_begin_it_too() -> None:
    plan = make_plan(compile_manifest(MANIFEST))
    for seed in range(5):
        log = FakeLog()
        begin_owners(
            plan, Crowd(log.client(), log.client(), random.Random(seed)), first_table(plan), lambda unit: 0, {}
        )
        assert all(log.client().read_progress(owner) is not None for owner in owners_of(plan))


def test_a_crowd_that_never_ends_is_waited_for_and_said(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("biclique.hosts.units.founding.PAUSE_S", 0.0)
    plan, log, asked = make_plan(compile_manifest(MANIFEST)), FakeLog(), iter([False, True])
    crowd = Crowd(log.client(), log.client(), random.Random(0), fences=1.0, commits=0.0)
    with caplog.at_level(logging.WARNING):
        assert not patiently(
            lambda: begin_owners(plan, crowd, first_table(plan), lambda unit: 0, {}), lambda: next(asked, True)
        )
    (record,) = caplog.records
    assert "0L0.0 could not begin: another process begins it again and again" in record.getMessage()


def test_a_founding_that_is_slow_shows_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver whose board does not turn for a while is taken for one that stands still, and is ended."""
    monkeypatch.setattr("biclique.hosts.units.founding.PAUSE_S", 0.0)
    plan, turns, log, other = make_plan(compile_manifest(MANIFEST)), list[str](), FakeLog(), FakeLog()
    table = first_table(plan)
    begin_owners(plan, log.client(), table, lambda unit: 0, {}, lambda: turns.append("turned"))
    assert len(turns) == len(owners_of(plan)), "once for each owner"
    crowd = Crowd(other.client(), other.client(), random.Random(0), fences=1.0, commits=0.0)
    turns.clear()
    with pytest.raises(NotFounded):
        begin_owners(plan, crowd, table, lambda unit: 0, {}, lambda: turns.append("turned"))
    assert len(turns) == ATTEMPTS, "and once for each time that it tries"


def test_two_manifests_that_begin_under_one_prefix_at_once_and_the_second_is_told(tmp_path: Path) -> None:
    more_units = on_topics(COUNT, "plan: {subgroups: {r: 2, s: 1}}")
    mine, other = (first_table(make_plan(compile_manifest(text))) for text in (MANIFEST, more_units))
    publish_first(ControlFolder(tmp_path), other, "q")
    with pytest.raises(Refused, match=r"^another manifest.* under the prefix q at the same moment: stop its tiers, or"):
        publish_first(ControlFolder(tmp_path), mine, "q")
    publish_first(ControlFolder(tmp_path), other, "q")
    assert ControlFolder(tmp_path).table(None) == other


# --- a query that has begun, and whose tables are gone ----------------------------------------------------------------


def begun(log: FakeLog, plan: Plan) -> None:
    """Half of it: no table is published yet."""
    begin_owners(plan, log.client(), first_table(plan), lambda unit: 0, {})


def goes_on(log: FakeLog) -> None:
    """A dispatcher has signalled for the first time."""
    client, owner = log.client(), dispatcher_producer(1)
    client.fence(owner)
    assert client.commit(Commit(owner, owner, (), DispatcherProgress(epoch=7))) is Outcome.COMMITTED


def test_a_query_whose_tables_are_gone_is_not_begun_anew_beside_its_state(tmp_path: Path) -> None:
    plan, log, control = make_plan(compile_manifest(MANIFEST)), FakeLog(), ControlFolder(tmp_path)
    begun(log, plan)
    goes_on(log)
    with pytest.raises(
        Refused, match=r"^the query q has begun.* dispatcher 1 .*routing tables are gone.*restore"
    ) as told:
        refuse_lost_tables(owners_of(plan), log.client(), control, "q", seen_s=0.2)
    assert "BICLIQUE_PREFIX" in str(told.value)
    assert control.noted() is None and control.table(None) is None, "nothing is written"
    publish_first(control, first_table(plan), "q")
    refuse_lost_tables(owners_of(plan), log.client(), control, "q", seen_s=0.2)


def test_a_founding_that_was_cut_short_goes_on(tmp_path: Path) -> None:
    plan, log = make_plan(compile_manifest(MANIFEST)), FakeLog()
    refuse_lost_tables(owners_of(plan), log.client(), ControlFolder(tmp_path), "q", seen_s=0.0)
    begun(log, plan)
    refuse_lost_tables(owners_of(plan), log.client(), ControlFolder(tmp_path), "q", seen_s=0.0)


def test_who_is_founded_while_another_looks_is_not_lost(tmp_path: Path) -> None:
    """The table is published, and a unit has begun, between two looks of a third."""
    plan, log, control = make_plan(compile_manifest(MANIFEST)), FakeLog(), ControlFolder(tmp_path)
    begun(log, plan)
    turns: list[int] = []

    def turned() -> None:
        turns.append(1)
        if len(turns) == 1:
            goes_on(log)
        elif len(turns) == len(owners_of(plan)):
            publish_first(ControlFolder(tmp_path), first_table(plan), "q")

    refuse_lost_tables(owners_of(plan), log.client(), control, "q", turned)
    assert control.table(None) == first_table(plan)
