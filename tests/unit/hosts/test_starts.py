"""Where source partitions are read from: chosen once, kept over restarts, and refused where it is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pytest

from biclique.core.places import last_place
from biclique.hosts.shuffle.packing import dispatcher_of
from biclique.hosts.shuffle.starts import first_places, starts_of
from biclique.hosts.shuffle.taken import taken_of
from biclique.hosts.units.founding import begin_owners
from biclique.plan.make import make_plan
from biclique.plan.table import first_table
from biclique.ports.log import Bounds
from biclique.ports.refusals import UnfitTopic, Unreachable
from biclique.query.compile import compile_manifest
from biclique.query.model import Query
from biclique.tiers.dispatcher import Dispatcher, LastRead, dispatcher_producer
from biclique.tiers.effects import Commit, Outcome
from biclique.tiers.messages import Address, Heartbeat, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from tests.simulation.fake_log import FakeLog

R0, R1, S0 = SourcePartition(0, 0), SourcePartition(0, 1), SourcePartition(1, 0)


def query_of(begin: str, form: str = "json") -> Query:
    return compile_manifest(f"""
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {{name: started}}
spec:
  sources:
    - name: r
      schema: "k INT"
      kafka: {{bootstrapServers: "b:1", topic: tr, format: {form}, startingOffsets: "{begin}"}}
    - {{name: s, schema: "k INT", kafka: {{bootstrapServers: "b:1", topic: ts}}}}
  sql: "SELECT r.k FROM r JOIN s ON r.k = s.k"
  topics: {{partitions: 2}}
  output: {{kafka: {{bootstrapServers: "b:1", topic: out}}}}
""")


@dataclass
class Broker:
    """Partitions as lists of append times, from an offset on."""

    begins: dict[SourcePartition, int]
    times: dict[SourcePartition, list[int]]

    def partitions(self) -> tuple[SourcePartition, ...]:
        return tuple(self.begins)

    def bounds(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, Bounds]:
        return {key: Bounds(self.begins[key], self.ends([key])[key]) for key in keys}

    def ends(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, int]:
        return {key: self.begins[key] + len(self.times[key]) for key in keys}

    def undecided(self, ends: Mapping[SourcePartition, int]) -> frozenset[SourcePartition]:
        return frozenset()

    def from_time(self, keys: Iterable[SourcePartition], time_ms: int) -> dict[SourcePartition, int]:
        return {
            key: next(
                (offset for offset, at in enumerate(self.times[key], self.begins[key]) if at >= time_ms),
                self.ends([key])[key],
            )
            for key in keys
        }


def broker() -> Broker:
    return Broker({R0: 10, R1: 0, S0: 3}, {R0: [1000, 2000, 3000], R1: [], S0: [1, 2]})


CHOICES: Mapping[str, dict[SourcePartition, int]] = {
    "earliest": {R0: 10, R1: 0},
    "latest": {R0: 13, R1: 0},
    "1970-01-01T00:00:02Z": {R0: 11, R1: 0},
    "1970-01-01T00:00:02.000001Z": {R0: 12, R1: 0},
    "2026-01-01": {R0: 13, R1: 0},
}


@pytest.mark.parametrize("form", ["json", "arrow"])
@pytest.mark.parametrize("begin", CHOICES)
def test_the_first_choice_is_kept_whatever_comes_before_the_first_record_is_taken(begin: str, form: str) -> None:
    query, topics = query_of(begin, form), broker()
    first = first_places(query, topics)
    assert starts_of(query, first, topics) == {**CHOICES[begin], S0: 3}
    for times in topics.times.values():
        times += [9000] * 5
    assert starts_of(query, first, topics) == {**CHOICES[begin], S0: 3}


def test_the_choice_is_in_the_first_progress_of_the_dispatcher_that_owns_the_partition() -> None:
    query = query_of("latest")
    plan, log = make_plan(query), FakeLog()
    places = first_places(query, broker())
    begin_owners(plan, log.client(), first_table(plan), lambda unit: 0, places)
    # Who comes later has looked later, and changes nothing.
    begin_owners(plan, log.client(), first_table(plan), lambda unit: 0, dict.fromkeys(places, 77))
    for number in range(plan.dispatchers):
        progress = log.client().read_progress(dispatcher_producer(number))
        assert isinstance(progress, DispatcherProgress)
        assert progress.last == {k: p for k, p in {R0: 12, R1: -1}.items() if dispatcher_of(k, 2) == number}


def test_a_restart_goes_on_behind_what_was_taken_and_a_new_partition_begins_with_what_is_there() -> None:
    query, topics = query_of("latest"), broker()
    topics.begins[SourcePartition(0, 2)], topics.times[SourcePartition(0, 2)] = 5, [1]
    starts = starts_of(query, {R0: 11, R1: -1, S0: 4}, topics)
    assert starts == {R0: 12, R1: 0, S0: 5, SourcePartition(0, 2): 5}


def test_half_a_message_is_read_again_and_a_whole_one_is_not() -> None:
    query, topics = query_of("earliest", "arrow"), broker()
    assert starts_of(query, {R0: (11 << 16) + 4}, topics)[R0] == 11
    assert starts_of(query, {R0: last_place(11, 16)}, topics)[R0] == 12


@pytest.mark.parametrize(
    ("taken", "sentence"),
    [
        (
            {R0: 13},
            "topic tr ends at offset 13 of partition 0, and was read up to 13 before: it was deleted and made anew",
        ),
        (
            {R0: 8},
            "topic tr begins at offset 10 of partition 0, and offsets from 9 on were not read yet: its retention",
        ),
        ({SourcePartition(0, 5): 1}, "topic tr has no partition 5 any more: it was deleted and made anew"),
    ],
)
def test_what_cannot_be_had_any_more_is_one_sentence(taken: dict[SourcePartition, int], sentence: str) -> None:
    with pytest.raises(UnfitTopic) as refused:
        starts_of(query_of("earliest"), taken, broker())
    assert sentence in str(refused.value) and "begin the query anew" in str(refused.value)


def test_all_taken_and_all_expired_is_no_loss() -> None:
    topics = Broker({R0: 13, R1: 0, S0: 0}, {R0: [], R1: [], S0: []})
    assert starts_of(query_of("earliest"), {R0: 12}, topics)[R0] == 13


def test_a_topic_that_retention_has_emptied_behind_its_markers_is_no_loss() -> None:
    """A producer's transaction ended at 13 and 14; the dispatcher had heard that nothing else stands there."""
    query, topics = query_of("earliest"), Broker({R0: 15, R1: 0, S0: 0}, {R0: [], R1: [], S0: []})
    dispatcher = Dispatcher(make_plan(query), 0, (R0,), DispatcherProgress(last={R0: 12}))
    with pytest.raises(UnfitTopic, match="offsets from 13 on were not read yet"):
        starts_of(query, dispatcher.progress.last, topics)
    turn = dispatcher.turn(
        [(0, Heartbeat(0, 0, 12, 1, 1, read_to=15))], 1, first_table(make_plan(query)), 1, LastRead()
    )
    assert turn is not None
    assert starts_of(query, turn.progress.last, topics)[R0] == 15


@pytest.mark.parametrize(("last", "begins"), [(None, 12), (3, 12), (None, 8)])
def test_what_retention_removed_while_a_dispatcher_was_down_is_lost_only_if_it_is_not_in_shuffled(
    last: int | None, begins: int
) -> None:
    """Offsets up to 7 were read and lie in shuffled; their dispatcher had taken those up to `last`. By now the topic
    begins at 12, where 8 to 11 were never read, or at 8."""
    query, log = query_of("earliest"), FakeLog()
    plan, client = make_plan(query), log.client()
    topics = Broker({R0: begins, R1: 0, S0: 0}, {R0: [1], R1: [], S0: []})
    owner, shuffled = dispatcher_producer(dispatcher_of(R0, 2)), Address(Topic.SHUFFLED, dispatcher_of(R0, 2))
    client.fence(owner)

    def takes(to: int, offset: int) -> None:
        request = Commit(owner, owner, (), DispatcherProgress(offset=offset, last={R0: to}))
        assert client.commit(request) is Outcome.COMMITTED

    log.append(shuffled, [Heartbeat(0, 0, 3, 1, 1), Heartbeat(0, 0, 7, 2, 1)])  # in place of two blocks
    if last is not None:
        takes(last, 1)

    def starts() -> dict[SourcePartition, int]:
        taken = taken_of(plan, log, client)
        return starts_of(query, taken.last, topics, under_way=taken.under_way)

    with pytest.raises(Unreachable, match="may be on their way to a dispatcher that is down or behind"):
        starts()
    takes(7, 2)
    if begins == 8:
        assert starts()[R0] == 8
    else:
        with pytest.raises(UnfitTopic, match="offsets from 8 on were not read yet: its retention"):
            starts()


def test_a_topic_that_began_late_is_read_at_once_where_nothing_was_sent_before() -> None:
    query, log, topics = query_of("earliest"), FakeLog(), Broker({R0: 10, R1: 0, S0: 0}, {R0: [1], R1: [], S0: []})
    log.append(Address(Topic.SHUFFLED, dispatcher_of(R1, 2)), [Heartbeat(0, 1, -1, 1, 1)])  # another dispatcher's
    taken = taken_of(make_plan(query), log, log.client())
    assert starts_of(query, taken.last, topics, under_way=taken.under_way) == {R0: 10, R1: 0, S0: 0}
