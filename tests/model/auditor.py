"""The judge: from what went into a run and what came out of it to the promises that were broken.

A pure function of the evidence, whoever ran the query. It asks, of the tuples that were accepted:
* conservation (accounting.py): each source record has one fate, filed and counted;
* signals (signals.py): epochs, watermarks and versions only grow, each from where the protocol lets it;
* exactly once: every result that they give is in the committed output once, with the right values, and nothing else is;
* one producer: each pair is answered by the one unit that the stamps name, and each unit says what its log says
  (unit_answers.py): one log, one answer;
* bounds (bounds.py): no transaction, unit or checkpoint is greater than it may be;
* progress: operations end, watermarks follow the sources, frontiers reach the end of the logs.

Violations come in an order in which the first is the most telling: a tuple that was lost explains a pair that is
missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from biclique.core.stamps import epoch_of
from biclique.kernels.groups import SumOverflow
from biclique.kernels.hashing import result_ids
from biclique.query.expression import Scalar
from biclique.query.model import Aggregate, GroupKey
from biclique.routing.protocol import Role, Strategy
from biclique.routing.table import UnitId
from biclique.tiers.messages import Address, Partials, Producer, Results, Topic
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, MergerProgress
from tests.model.accounting import Accounts, alike
from tests.model.bounds import Use, bound_violations
from tests.model.evaluate import Outcome, evaluate
from tests.model.evidence import Evidence, Violation
from tests.model.pieces import Logs, Piece, scalars
from tests.model.signals import signal_violations
from tests.model.standing import standing_violations, unfounded_overflow
from tests.model.unit_answers import Ids, StagePredicate, UnitAnswers

SHOWN = 3  # violations of one kind; the rest are counted
RECORDS_UNDER_WAY = 4  # of a source partition, when a run is stopped


def audit(evidence: Evidence, use: Use | None = None) -> list[Violation]:
    """`use`: what the run has used, where that was observed."""
    logs = Logs(evidence)
    accounts = Accounts(evidence, logs)
    found: list[Violation] = []
    answers = Answers(evidence, logs, accounts)
    for part in (accounts.violations(), signal_violations(evidence), answers.violations(), stuck(evidence, logs)):
        found += _some(part)
    return found + (_some(bound_violations(evidence, logs, use)) if use else [])


def overflow_violations(evidence: Evidence, overflow: SumOverflow) -> Iterator[Violation]:
    """Of a run that a SUM has stopped: there must be a group whose sum does not fit."""
    logs = Logs(evidence)
    accounts = Accounts(evidence, logs)
    results = Answers(evidence, logs, accounts).expected()[-1].values()
    yield from unfounded_overflow(evidence, list(results), overflow)


def _some(violations: Iterator[Violation]) -> list[Violation]:
    seen: Counter[str] = Counter()
    shown = []
    for violation in violations:
        seen[violation.promise] += 1
        if seen[violation.promise] <= SHOWN:
            shown.append(violation)
    more = [Violation(promise, f"and {n - SHOWN} more") for promise, n in seen.items() if n > SHOWN]
    return shown + more


class Answers:
    def __init__(self, evidence: Evidence, logs: Logs, accounts: Accounts) -> None:
        self.evidence, self.logs, self.accounts = evidence, logs, accounts
        self.plan = evidence.plan
        self._stamps = {
            relation: sorted(piece.stamp for piece in accepted.values())
            for relation, accepted in accounts.accepted.items()
        }
        self._units = UnitAnswers(evidence, logs, self._stamps)

    def violations(self) -> Iterator[Violation]:
        expected = self.expected()
        last = len(self.plan.stages) - 1
        by_unit: dict[UnitId, list[Ids]] = {}
        makers: dict[Ids, list[UnitId]] = {}
        for unit in self.logs.units:
            by_unit[unit] = [_ids(left, right) for left, right in self._units.pairs(unit)]
            for ids in by_unit[unit]:
                makers.setdefault(ids, []).append(unit)
        yield from self._one_producer(expected, makers)
        for stage in range(last):
            yield from self._partial_results(stage, by_unit)
        if not self.plan.mergers:
            yield from self._results(expected[last], by_unit)
        else:
            yield from standing_violations(self.evidence, list(expected[last].values()))

    # What the accepted tuples give, and who must say it.

    def expected(self) -> list[dict[Ids, tuple[Piece, ...]]]:
        """For each stage: ids → the pieces that they name."""
        by_relation = self.accounts.accepted
        order = self.plan.order
        partial: dict[Ids, tuple[Piece, ...]] = {(i,): (piece,) for i, piece in by_relation[order[0]].items()}
        found = []
        for number, relation in enumerate(order[1:]):
            qualifies = StagePredicate(self.plan, number, self._stamps)
            following: dict[Ids, tuple[Piece, ...]] = {}
            for pieces in partial.values():
                left = _joined(pieces)
                for piece in by_relation[relation].values():
                    if qualifies(left, piece):
                        following[_ids(left, piece)] = (*pieces, piece)
            partial = following
            found.append(following)
        return found

    def _one_producer(
        self, expected: list[dict[Ids, tuple[Piece, ...]]], makers: dict[Ids, list[UnitId]]
    ) -> Iterator[Violation]:
        for due in expected:
            for ids in due:
                if len(units := makers.get(ids, [])) != 1:
                    named = [str(unit) for unit in units]
                    yield Violation("a pair has one producer", f"{self._name(ids)} meets in {named or 'no unit'}")
        known = {ids for due in expected for ids in due}
        for ids in makers.keys() - known:
            yield Violation("a pair has one producer", f"{self._name(ids)} meets, and is no pair of accepted tuples")

    def _name(self, ids: Ids) -> str:
        return " × ".join(self.accounts.name(identity) for identity in ids)

    # What the units said.

    def _partial_results(self, stage: int, by_unit: dict[UnitId, list[Ids]]) -> Iterator[Violation]:
        """Where the next stage replicates, one result is stored by several units: it counts once if each has it
        once."""
        stored: dict[str, Counter[Ids]] = {}
        copies: set[tuple[Ids, UnitId]] = set()
        replicates = self.plan.stages[stage + 1].strategy is Strategy.MATRIX
        probing: dict[str, set[Ids]] = {}
        for unit in self.logs.units:
            if unit.subgroup.stage != stage + 1:
                continue
            for given in self.logs.given(unit):
                if given.sender.tier == "joiner":
                    ids = tuple(sorted(given.piece.ids))
                    said = stored.setdefault(given.sender.name, Counter())
                    if given.role is not Role.PROBE:
                        said[ids] = said[ids] + 1 if not replicates or (ids, unit) in copies else 1
                        copies.add((ids, unit))
                    if given.role is not Role.STORE:
                        probing.setdefault(given.sender.name, set()).add(ids)
        for unit, due in by_unit.items():
            if unit.subgroup.stage == stage:
                emitted = stored.get(str(unit), Counter())
                yield from self._differences(str(unit), Counter(due), emitted)
                for ids in set(due) - probing.get(str(unit), set()):
                    yield Violation("one log, one answer", f"{unit} never sent {self._name(ids)} to probe")

    def _results(self, expected: dict[Ids, tuple[Piece, ...]], by_unit: dict[UnitId, list[Ids]]) -> Iterator[Violation]:
        known = {_result_id(ids): ids for ids in expected}
        if len(known) != len(expected):
            yield Violation("result ids are unique", f"{len(expected)} results have {len(known)} ids")
        said: dict[str, Counter[Ids]] = {}
        for address, log in self.evidence.logs.items():
            if address.topic is not Topic.OUTPUT:
                continue
            counted = said.setdefault(str(address.partition), Counter())
            for _, record in log:
                assert isinstance(record, Results)
                rows = zip(*map(scalars, record.columns), strict=True)
                identities = zip(record.ids_high.tolist(), record.ids_low.tolist(), strict=True)
                for identity, row, time in zip(identities, rows, record.times.tolist(), strict=True):
                    ids = known.get(identity)
                    if ids is None:
                        yield Violation("exactly once", f"{address} holds {row}, which is no result ({identity})")
                        continue
                    counted[ids] += 1
                    yield from self._values(ids, expected[ids], row, time)
        total = sum(said.values(), Counter())
        yield from self._differences("the output", Counter(expected.keys()), total, "exactly once")
        for partition in {str(unit._replace(generation=0)) for unit in by_unit if unit.subgroup.stage == self._last}:
            units = [unit for unit in by_unit if str(unit._replace(generation=0)) == partition]
            due = Counter(ids for unit in units for ids in by_unit[unit])
            yield from self._differences(partition, due, said.get(partition, Counter()))

    @property
    def _last(self) -> int:
        return len(self.plan.stages) - 1

    def _values(self, ids: Ids, pieces: tuple[Piece, ...], row: tuple[Scalar, ...], time: int) -> Iterator[Violation]:
        values = {column: value for piece in pieces for column, value in piece.values.items()}
        for item, got in zip(self.plan.query.items, row, strict=True):
            assert not isinstance(item.value, Aggregate | GroupKey)
            due = evaluate(item.value, values)
            if not alike(None if isinstance(due, Outcome) else due, got):
                yield Violation("results have the right values", f"{self._name(ids)}: {item.name} is {got}, not {due}")
        if time != max(piece.newest for piece in pieces):
            yield Violation("results have the right values", f"{self._name(ids)}: its time is {time}")

    def _differences(
        self, who: str, due: Counter[Ids], said: Counter[Ids], promise: str = "one log, one answer"
    ) -> Iterator[Violation]:
        for ids in sorted(set(due) | set(said)):
            if due[ids] != said[ids]:
                times = f"{said[ids]} times and not {due[ids]}"
                stamps = [self._stamp(identity) for identity in ids]
                yield Violation(promise, f"{who} has {self._name(ids)} {times}; stamps {stamps}")

    def _stamp(self, identity: int) -> str:
        for accepted in self.accounts.accepted.values():
            if identity in accepted:
                return f"{epoch_of(accepted[identity].stamp)}|{accepted[identity].stamp & ((1 << 23) - 1)}"
        return "none"


def _joined(pieces: tuple[Piece, ...]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    return Piece(
        max(piece.stamp for piece in pieces),
        tuple(identity for piece in pieces for identity in piece.ids),
        max(piece.newest for piece in pieces),
        min(piece.oldest for piece in pieces),
        {column: value for piece in pieces for column, value in piece.values.items()},
    )


def _ids(left: Piece, right: Piece) -> Ids:
    return tuple(sorted((*left.ids, *right.ids)))


def _result_id(ids: Ids) -> tuple[int, int]:
    high, low = result_ids(tuple(np.array([identity], np.int64) for identity in ids))
    return int(high[0]), int(low[0])


# --- nothing is stuck ------------------------------------------------------------------------------------------------


def stuck(evidence: Evidence, logs: Logs) -> Iterator[Violation]:
    for what in evidence.unfinished:
        yield Violation("nothing is stuck", what)
    yield from _watermarks(evidence)
    yield from _mergers(evidence)
    table, switch = evidence.tables[-1], evidence.stage_switch
    for unit in table.units():
        progress = evidence.progress.get(Producer("joiner", str(unit)))
        if not isinstance(progress, JoinerProgress):
            yield Violation("nothing is stuck", f"{unit} never committed")
            continue
        due = max((epoch_of(given.piece.stamp) for given in logs.given(unit)), default=-1)
        for move in table.moves:
            if move.source == unit:
                due = min(due, switch.get((move.version, unit.subgroup.stage), due))
        if progress.frontier < due or progress.cursor is not None:
            yield Violation("nothing is stuck", f"{unit} stands at {progress}, and its log goes to {due}")


def _mergers(evidence: Evidence) -> Iterator[Violation]:
    for number in range(evidence.plan.mergers):
        progress = evidence.progress.get(Producer("merger", str(number)))
        log = evidence.logs.get(Address(Topic.PARTIALS, number), ())
        due = max((record.epoch for _, record in log if isinstance(record, Partials)), default=-1)
        if not isinstance(progress, MergerProgress) or progress.frontier < due:
            yield Violation("nothing is stuck", f"merger {number} stands at {progress}, and its log goes to {due}")


def _watermarks(evidence: Evidence) -> Iterator[Violation]:
    """Of those who hold a partition that is awake, or could follow one that is: within a few records of the sources."""
    sources = evidence.plan.query.sources
    due: list[int] = []
    for key, records in evidence.sources.items():
        progress = evidence.progress.get(Producer("dispatcher", str(evidence.dispatcher_of[key])))
        last = progress.last.get(key, -1) if isinstance(progress, DispatcherProgress) else -1
        if sum(record.offset > last for record in records) > RECORDS_UNDER_WAY:
            yield Violation("nothing is stuck", f"source partition {tuple(key)} was read up to {last} only")
        if key not in evidence.asleep:
            times = [r.time for r in records if not r.is_dead(sources[key.source])]
            if len(times) > RECORDS_UNDER_WAY:
                due.append(max(times[:-RECORDS_UNDER_WAY]) - sources[key.source].event_time.lateness_us)
            else:
                due.append(-(1 << 62))
    if not due:
        return
    for producer, progress in evidence.progress.items():
        if isinstance(progress, DispatcherProgress) and progress.watermark < min(due):
            yield Violation("nothing is stuck", f"{producer} is at watermark {progress.watermark}, not {min(due)}")
