"""The judge is judged: an honest run has no violation, and every way of tampering with it has the right one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from biclique.core.rows import Vector
from biclique.kernels.groups import SumOverflow
from biclique.routing.protocol import Role, Strategy
from biclique.tiers.messages import Address, Block, Producer, Record, Results, SetAside, Topic
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, SourcePartition
from tests.model.auditor import audit, overflow_violations
from tests.model.evidence import Evidence
from tests.simulation.world import World

Log = list[tuple[int, Record]]


def evidence_of(wanted: Callable[[World], bool]) -> Evidence:
    """Of the first run with such a plan that joins, files and loses something worth tampering with."""
    for seed in range(200):
        world = World(seed)
        if not wanted(world) or world.scenario.dead_rate == 0:
            continue
        world.run()
        evidence = world.evidence()
        filed = {address.topic for address, log in evidence.logs.items() if log}
        if {Topic.OUTPUT, Topic.DEAD, Topic.LATE} <= filed:
            return evidence
    raise AssertionError("no run has what is asked for")


@pytest.fixture(scope="module")
def honest() -> Evidence:
    def plain(world: World) -> bool:
        plan = world.plan
        return len(plan.stages) == 1 and not plan.mergers and plan.stages[0].strategy is Strategy.BICLIQUE

    return evidence_of(plain)


@pytest.fixture(scope="module")
def grouped() -> Evidence:
    def running(world: World) -> bool:
        query = world.plan.query
        return query.aggregating and query.tumble_us is None and bool(query.group_by) and not world.scenario.hold

    return evidence_of(running)


def promises(evidence: Evidence) -> set[str]:
    return {violation.promise for violation in audit(evidence)}


def with_log(evidence: Evidence, topic: Topic, change: Callable[[Log], Log]) -> Evidence:
    """The first log of the topic that holds anything, changed."""
    address = next(a for a, log in sorted(evidence.logs.items(), key=str) if a.topic is topic and log)
    return replace(evidence, logs={**evidence.logs, address: change(list(evidence.logs[address]))})


def at_first(kind: type, change: Callable[[Record], list[Record]]) -> Callable[[Log], Log]:
    def changed(log: Log) -> Log:
        at = next(i for i, (_, record) in enumerate(log) if isinstance(record, kind))
        offset, record = log[at]
        return [*log[:at], *((offset, new) for new in change(record)), *log[at + 1 :]]

    return changed


def test_an_honest_run_has_no_violation(honest: Evidence, grouped: Evidence) -> None:
    assert audit(honest) == []
    assert audit(grouped) == []


def test_a_lost_result_is_missed(honest: Evidence) -> None:
    tampered = with_log(honest, Topic.OUTPUT, at_first(Results, lambda record: []))
    assert promises(tampered) == {"exactly once", "one log, one answer"}


def test_a_doubled_result_is_noticed(honest: Evidence) -> None:
    tampered = with_log(honest, Topic.OUTPUT, at_first(Results, lambda record: [record, record]))
    assert promises(tampered) == {"exactly once", "one log, one answer"}


def test_a_result_of_another_unit_is_noticed(honest: Evidence) -> None:
    """Exactly once in the output, and yet not by the one unit that the stamps name."""
    address, log = next((a, log) for a, log in honest.logs.items() if a.topic is Topic.OUTPUT and log)
    elsewhere = Address(Topic.OUTPUT, "0L9.9")
    logs = {a: other for a, other in honest.logs.items() if a != address}
    assert promises(replace(honest, logs={**logs, elsewhere: log})) == {"one log, one answer"}


def test_an_invented_result_is_noticed(honest: Evidence) -> None:
    def invent(record: Record) -> list[Record]:
        assert isinstance(record, Results)
        return [record, replace(record, ids_low=record.ids_low + np.uint64(1))]

    assert "exactly once" in promises(with_log(honest, Topic.OUTPUT, at_first(Results, invent)))


def test_a_wrong_time_is_noticed(honest: Evidence) -> None:
    def later(record: Record) -> list[Record]:
        assert isinstance(record, Results)
        return [replace(record, times=record.times + 1)]

    assert promises(with_log(honest, Topic.OUTPUT, at_first(Results, later))) == {"results have the right values"}


def test_a_wrong_value_is_noticed(honest: Evidence) -> None:
    def altered(record: Record) -> list[Record]:
        assert isinstance(record, Results)
        none = np.zeros(len(record.times), np.bool_)
        # What was there is null, and what was null is there.
        turned = tuple(Vector(c.values, none if c.valid is None else ~c.valid) for c in record.columns)
        return [replace(record, columns=turned)]

    # In every log: the rows of a single one may well have been null before.
    nulled = {
        address: [(offset, new) for offset, record in log for new in altered(record)]
        for address, log in honest.logs.items()
        if address.topic is Topic.OUTPUT
    }
    assert promises(replace(honest, logs={**honest.logs, **nulled})) == {"results have the right values"}


def test_a_tuple_that_was_never_stored_is_missed(honest: Evidence) -> None:
    def stores(log: Log) -> list[int]:
        return [i for i, (_, r) in enumerate(log) if isinstance(r, Block) and r.role is Role.STORE]

    address, log = next((a, log) for a, log in honest.logs.items() if a.topic is Topic.UNIT and stores(log))
    without = [entry for i, entry in enumerate(log) if i != stores(log)[0]]
    assert "conservation" in promises(replace(honest, logs={**honest.logs, address: without}))


def test_a_tuple_that_was_stored_twice_is_noticed(honest: Evidence) -> None:
    tampered = with_log(honest, Topic.UNIT, at_first(Block, lambda record: [record, record]))
    assert "a tuple has one stamp and goes to a unit once" in promises(tampered)


def test_a_dead_record_filed_twice_is_noticed(honest: Evidence) -> None:
    tampered = with_log(honest, Topic.DEAD, at_first(SetAside, lambda record: [record, record]))
    assert "conservation" in promises(tampered)


def test_a_dead_record_that_disappeared_is_missed(honest: Evidence) -> None:
    assert "conservation" in promises(with_log(honest, Topic.DEAD, at_first(SetAside, lambda record: [])))


def test_counters_that_do_not_agree_are_noticed(honest: Evidence) -> None:
    producer = Producer("dispatcher", "0")
    progress = honest.progress[producer]
    assert isinstance(progress, DispatcherProgress)
    fates = {fate: tuple(n + 1 for n in counts) for fate, counts in progress.fates.items()}
    tampered = replace(honest, progress={**honest.progress, producer: replace(progress, fates=fates)})
    assert promises(tampered) == {"the sums agree"}


def test_a_unit_that_stands_still_is_noticed(honest: Evidence) -> None:
    unit = honest.tables[-1].units()[0]
    producer = Producer("joiner", str(unit))
    progress = honest.progress[producer]
    assert isinstance(progress, JoinerProgress)
    tampered = replace(honest, progress={**honest.progress, producer: replace(progress, frontier=0)})
    assert promises(tampered) == {"nothing is stuck"}


def test_a_watermark_that_stands_still_is_noticed(honest: Evidence) -> None:
    producer = Producer("dispatcher", "0")
    progress = honest.progress[producer]
    assert isinstance(progress, DispatcherProgress)
    old = replace(progress, watermark=progress.watermark - (1 << 50))
    assert promises(replace(honest, progress={**honest.progress, producer: old})) == {"nothing is stuck"}


def test_a_source_that_is_not_read_on_is_noticed(honest: Evidence) -> None:
    key: SourcePartition = next(iter(honest.sources))
    records = honest.sources[key]
    more = [replace(records[-1], offset=records[-1].offset + n) for n in range(1, 9)]
    tampered = replace(honest, sources={**honest.sources, key: [*records, *more]})
    assert "nothing is stuck" in promises(tampered)


def test_a_group_that_stands_wrong_is_noticed(grouped: Evidence) -> None:
    def without_any(log: Log) -> Log:
        return []  # the last row alone may be one that was written twice

    assert "exactly once" in promises(with_log(grouped, Topic.OUTPUT, without_any))


def test_dead_bytes_that_were_altered_are_noticed(honest: Evidence) -> None:
    def altered(record: Record) -> list[Record]:
        assert isinstance(record, SetAside)
        return [replace(record, records=tuple(replace(dead, raw=dead.raw + b"!") for dead in record.records))]

    assert promises(with_log(honest, Topic.DEAD, at_first(SetAside, altered))) == {"dead keeps its bytes"}


def test_a_late_tuple_without_a_reason_is_noticed(honest: Evidence) -> None:
    """As if the partition had neither slept nor been out of order: then nobody could have made it late."""
    filed = {(r.source, r.partition) for a, log in honest.logs.items() if a.topic is Topic.LATE for _, r in log}
    assert filed, "the run has late tuples"
    punctual = {
        key: [replace(r, time=r.offset * 10**9, born_ms=honest.began_ms + r.offset) for r in records]
        if tuple(key) in filed
        else records
        for key, records in honest.sources.items()
    }
    assert "late has a reason" in promises(replace(honest, sources=punctual))


def test_a_sum_that_fits_is_no_reason_to_stop(grouped: Evidence) -> None:
    item = grouped.plan.query.items[0]
    found = list(overflow_violations(grouped, SumOverflow(item.name, (), item.type)))
    assert [violation.promise for violation in found] == ["a run stops for a reason"]
