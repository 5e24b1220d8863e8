"""Conservation: every source record has one fate, the fates are filed where they belong, and the counters agree.

A record that its dispatcher has passed is exactly one of: dead (filed or dropped, as the source says), filtered, late
(filed, with a reason), or accepted: then it is stored and sent to probe in every relation whose filter it passes,
under one stamp, with the values that the source held.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from biclique.core.stamps import parts_of_id, tuple_id
from biclique.query.expression import Column, Scalar
from biclique.query.model import OnBadRecord
from biclique.routing.protocol import Role, Strategy
from biclique.routing.table import UnitId
from biclique.tiers.messages import TIME_NEVER, Address, LateTuples, Producer, SetAside, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from tests.model.evaluate import FAILED, evaluate
from tests.model.evidence import Evidence, SourceRecord, Violation
from tests.model.pieces import Given, Logs, Piece, holds

BEYOND_ALL_TIMES = 1 << 62


class Accounts:
    """`accepted[relation]`: the tuples that were stored, each once, by their ids."""

    def __init__(self, evidence: Evidence, logs: Logs) -> None:
        self.evidence, self.logs = evidence, logs
        self.query = evidence.plan.query
        self.accepted: dict[int, dict[int, Piece]] = {n: {} for n in range(len(self.query.relations))}
        self._stored: dict[int, list[UnitId]] = defaultdict(list)  # id -> the units that were told to store it
        self._probing: dict[int, set[UnitId]] = defaultdict(set)
        self._doubled: list[str] = []
        for unit in logs.units:
            self._take(unit, logs.given(unit))
        self._relations = [
            [n for n, relation in enumerate(self.query.relations) if relation.source == source]
            for source in range(len(self.query.sources))
        ]

    def _take(self, unit: UnitId, given: list[Given]) -> None:
        seen: set[tuple[int, Role]] = set()
        for row in given:
            if row.sender.tier != "dispatcher":
                continue
            (identity,) = row.piece.ids
            if (identity, row.role) in seen:
                self._doubled.append(f"{unit} got {self.name(identity)} twice to {row.role.value}")
            seen.add((identity, row.role))
            relation = self.evidence.plan.stages[unit.subgroup.stage].sides[row.side].relations[0]
            known = self.accepted[relation].setdefault(identity, row.piece)
            if known is not row.piece and (known.stamp != row.piece.stamp or not _same(known.values, row.piece.values)):
                self._doubled.append(f"{self.name(identity)} came as {known} and as {row.piece}")
            if row.role is not Role.PROBE:
                self._stored[identity].append(unit)
            if row.role is not Role.STORE:
                self._probing[identity].add(unit)

    def name(self, identity: int) -> str:
        relation, partition, offset = parts_of_id(identity)
        return f"{self.query.relations[relation].name}[{partition}:{offset}]"

    def violations(self) -> Iterator[Violation]:
        yield from (Violation("a tuple has one stamp and goes to a unit once", what) for what in self._doubled)
        filed = _Filed(self.evidence)
        yield from filed.violations
        fates: dict[int, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
        known: set[int] = set()
        for key, records in self.evidence.sources.items():
            dispatcher = self.evidence.dispatcher_of[key]
            progress = self.evidence.progress.get(Producer("dispatcher", str(dispatcher)))
            last = progress.last.get(key, -1) if isinstance(progress, DispatcherProgress) else -1
            for record in records:
                fate, found = self._fate(key, record, filed, record.offset <= last)
                known |= {tuple_id(n, key.partition, record.offset) for n in self._relations[key.source]}
                yield from found
                if fate:
                    fates[dispatcher][fate][key.source] += 1
                if fate == "filtered" and any(self._fails(n, record) for n in self._relations[key.source]):
                    fates[dispatcher]["failed filter"][key.source] += 1
                if fate == "accepted":
                    failing = sum(self._fails_on_entry(n, record) for n in self._relations[key.source])
                    fates[dispatcher]["failed expression"][key.source] += failing
            yield from self._late_without_reason(key, records, filed)
        for accepted in self.accepted.values():
            for identity in accepted.keys() - known:
                yield Violation("conservation", f"{self.name(identity)} came from nowhere")
        yield from self._counters(fates)

    def _fate(
        self, key: SourcePartition, record: SourceRecord, filed: _Filed, taken: bool
    ) -> tuple[str | None, list[Violation]]:
        dead, late = filed.dead[key, record.offset], filed.late[key, record.offset]
        ids = {n: tuple_id(n, key.partition, record.offset) for n in self._relations[key.source]}
        there = {n for n, identity in ids.items() if identity in self.accepted[n]}
        name = f"{self.query.sources[key.source].name}[{key.partition}:{record.offset}]"

        def broken(what: str) -> tuple[None, list[Violation]]:
            return None, [
                Violation("conservation", f"{name} {what}: dead {dead}, late {late}, accepted {sorted(there)}")
            ]

        if not taken:
            return broken("was not taken, but is somewhere") if dead or late or there else (None, [])
        if record.is_dead(self.query.sources[key.source]):
            drop = self.query.sources[key.source].on_bad_record is OnBadRecord.DROP
            if late or there or dead != (0 if drop else 1):
                return broken("is dead")
            if not drop and filed.bytes_of[key, record.offset] != record.raw:
                there_is = filed.bytes_of[key, record.offset]
                return "dead", [
                    Violation("dead keeps its bytes", f"{name} was {record.raw!r}, and {there_is!r} is filed")
                ]
            return ("dropped" if drop else "dead"), []
        passing = {n for n in ids if self._passes(n, record)}
        if dead:
            return broken("is readable")
        if not passing:
            return broken("is filtered") if late or there else ("filtered", [])
        if late:
            return broken("is late") if late > 1 or there else ("late", [])
        if there != passing:
            return broken(f"belongs to relations {sorted(passing)}")
        return "accepted", [
            violation for n, identity in ids.items() if n in there for violation in self._placed(n, identity, record)
        ]

    def _passes(self, relation: int, record: SourceRecord) -> bool:
        values = self._values(relation, record)
        return all(holds(conjunct, values) for conjunct in self.query.filters[relation])

    def _fails(self, relation: int, record: SourceRecord) -> bool:
        """WHERE is neither true nor false nor unknown: a conjunct failed, and none is false."""
        values = self._values(relation, record)
        found = [evaluate(conjunct, values) for conjunct in self.query.filters[relation]]
        return any(value is FAILED for value in found) and not any(value is False for value in found)

    def _fails_on_entry(self, relation: int, record: SourceRecord) -> bool:
        """A key of a tuple failed, or WHERE did where the record is accepted for another relation."""
        if not self._passes(relation, record):
            return self._fails(relation, record)
        stage, side = self.evidence.plan.entry(relation)
        access = self.evidence.plan.stages[stage].sides[side].access
        keys = [stored for stored, _ in access.equal]
        keys += [keyed.stored for keyed in (access.first, access.second) if keyed is not None]
        values = self._values(relation, record)
        return any(evaluate(key, values) is FAILED for key in keys)

    def _values(self, relation: int, record: SourceRecord) -> Mapping[Column, Scalar]:
        assert record.values is not None
        fields = self.query.sources[self.query.relations[relation].source].fields
        return {Column(relation, i, field.type): record.values[i] for i, field in enumerate(fields)}

    def _placed(self, relation: int, identity: int, record: SourceRecord) -> Iterator[Violation]:
        name, piece = self.name(identity), self.accepted[relation][identity]
        stage, _ = self.evidence.plan.entry(relation)
        once = self.evidence.plan.stages[stage].strategy is not Strategy.MATRIX
        units = self._stored[identity]
        if not units or (once and len(units) != 1):
            yield Violation("conservation", f"{name} is stored at {[str(unit) for unit in units]}")
        if not self._probing[identity]:
            yield Violation("conservation", f"{name} probes nowhere")
        source = self._values(relation, record)
        if piece.newest != record.time or piece.oldest != record.time:
            yield Violation("a tuple keeps its time", f"{name} has {piece.newest}, and {record.time} at the source")
        if not _same(piece.values, {column: source[column] for column in piece.values}):
            yield Violation("a tuple keeps its values", f"{name} has {piece.values}, and {record.values} at the source")

    def _late_without_reason(
        self, key: SourcePartition, records: Sequence[SourceRecord], filed: _Filed
    ) -> Iterator[Violation]:
        """Late is only what came out of order, or after a sleep, in its own partition: nobody else's clock makes it so.

        A sleep excuses what follows until a tuple of the partition is accepted: the watermark was no further than that
        tuple's time then, and the partition's own times carry it on from there. A partition that was added while the
        query ran held no watermark back before its dispatcher heard of it: as if it had slept.
        """
        event_time = self.query.sources[key.source].event_time
        greatest, born = None, self.evidence.began_ms
        excused_below = BEYOND_ALL_TIMES if key in self.evidence.added else TIME_NEVER
        for record in records:
            if record.born_ms - born >= event_time.idle_after_us // 1000 - 1:
                excused_below = BEYOND_ALL_TIMES
            born = record.born_ms
            if filed.late[key, record.offset]:
                disordered = greatest is not None and record.time < greatest - event_time.lateness_us
                if not disordered and record.time >= excused_below:
                    yield Violation("late has a reason", f"{self.query.sources[key.source].name} {record} has none")
                if record.time >= filed.watermark[key, record.offset]:
                    yield Violation("late has a reason", f"{record} is not below {filed.watermark[key, record.offset]}")
            elif any(
                tuple_id(n, key.partition, record.offset) in self.accepted[n] for n in self._relations[key.source]
            ):
                excused_below = min(excused_below, record.time)
            if not record.is_dead(self.query.sources[key.source]):
                greatest = record.time if greatest is None else max(greatest, record.time)

    def _counters(self, fates: Mapping[int, Mapping[str, Counter[int]]]) -> Iterator[Violation]:
        for producer, progress in self.evidence.progress.items():
            if not isinstance(progress, DispatcherProgress):
                continue
            counted = fates.get(int(producer.name), {})
            for fate in sorted({*progress.fates, *counted}):
                said = progress.fates.get(fate, ())
                real = tuple(counted.get(fate, Counter())[source] for source in range(len(self.query.sources)))
                if tuple(said or (0,) * len(real)) != real:
                    yield Violation("the sums agree", f"{producer} counts {fate} as {said}, and it was {real}")


class _Filed:
    """How often each record stands in the late and the dead topics."""

    def __init__(self, evidence: Evidence) -> None:
        self.late: Counter[tuple[SourcePartition, int]] = Counter()
        self.dead: Counter[tuple[SourcePartition, int]] = Counter()
        self.watermark: dict[tuple[SourcePartition, int], int] = {}
        self.bytes_of: dict[tuple[SourcePartition, int], bytes] = {}
        self.violations: list[Violation] = []
        for address, log in evidence.logs.items():
            if address.topic in {Topic.LATE, Topic.DEAD}:
                for _, record in log:
                    self._take(evidence, address, record)

    def _take(self, evidence: Evidence, address: Address, record: object) -> None:
        if isinstance(record, LateTuples):
            key = SourcePartition(record.source, record.partition)
            for offset in record.offsets.tolist():
                self.late[key, offset] += 1
                self.watermark[key, offset] = record.watermark
        elif isinstance(record, SetAside):
            key = SourcePartition(record.source, record.partition)
            for dead in record.records:
                self.dead[key, dead.offset] += 1
                self.bytes_of[key, dead.offset] = dead.raw
                if not dead.reason or f"offset {dead.offset}" not in dead.place:
                    self.violations.append(Violation("dead has a reason and a place", f"{dead}"))
        else:
            self.violations.append(Violation("conservation", f"{address} holds {record}"))
            return
        if evidence.dispatcher_of[key] != address.partition:
            self.violations.append(Violation("conservation", f"{address} holds records of {key}"))


def _same(one: Mapping[Column, Scalar], other: Mapping[Column, Scalar]) -> bool:
    """Equal as stored: NaN is NaN, and 1 is not True."""
    return one.keys() == other.keys() and all(alike(one[column], other[column]) for column in one)


def alike(a: Scalar, b: Scalar) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b)
    return type(a) is type(b) and a == b
