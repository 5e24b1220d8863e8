"""What dispatchers read, trimmed by what they and the units have committed: signals, and shuffled; where units fetch
payload from it, by the marks of tiers/payload_trimming.py."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from biclique.plan.model import Plan
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.messages import Address, Topic
from biclique.tiers.payload_trimming import PayloadMarks
from biclique.tiers.progress import DispatcherProgress, JoinerProgress
from biclique.tiers.trimming import keep_signals_from
from tests.simulation.coverage import TRIMMED_PAYLOAD
from tests.simulation.fake_log import FakeLog
from tests.simulation.trimmer import trim_to


class DispatcherLogs:
    def __init__(self, plan: Plan, log: FakeLog) -> None:
        self._plan, self._log = plan, log
        self._marks = [PayloadMarks(plan) for _ in range(plan.dispatchers)]

    def trim(self, table: RoutingTable, units: Mapping[UnitId, JoinerProgress], heard_to: int) -> Counter[str]:
        """`table`: the newest; `heard_to`: by the operator."""
        known = [self._log.progress.get(dispatcher_producer(n)) for n in range(self._plan.dispatchers)]
        dispatchers = [progress for progress in known if isinstance(progress, DispatcherProgress)]
        if len(dispatchers) < len(known):
            return Counter()
        trim_to(self._log, Address(Topic.SIGNALS, 0), min(keep_signals_from(dispatchers), heard_to))
        counted, needing = Counter[str](), [units.get(unit) for unit in table.units()]
        watermarks = [progress.watermark for progress in needing if progress is not None]
        for number, progress in enumerate(dispatchers):
            address, marks = Address(Topic.SHUFFLED, number), self._marks[number]
            if not self._plan.may_leave_payload:
                trim_to(self._log, address, progress.offset)
                continue
            marks.note(progress)
            if len(watermarks) == len(needing):
                counted[TRIMMED_PAYLOAD] += trim_to(self._log, address, marks.keep_from(min(watermarks)))
        return counted
