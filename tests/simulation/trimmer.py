"""Trims the logs of a run as the drivers of the tiers do: by what is committed, written down before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from biclique.plan.model import Plan
from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.merger import merger_producer
from biclique.tiers.messages import Address, Topic
from biclique.tiers.progress import JoinerProgress, MergerProgress, TrimProgress
from biclique.tiers.trimming import first_needed, keep_from, keep_with, trimmer_of
from tests.simulation.fake_log import FakeLog


def trim_to(log: FakeLog, address: Address, before: int) -> bool:
    """Whether there was anything to trim."""
    if before <= log.partitions[address].start:
        return False
    log.progress[trimmer_of(address)] = TrimProgress(before)
    log.trim(address, before)
    return True


class Trimmer:
    def __init__(self, plan: Plan, log: FakeLog) -> None:
        self._plan, self._log = plan, log

    def trim_units(
        self,
        address: Address,
        units: Sequence[UnitId],
        table: RoutingTable,
        running: frozenset[UnitId],
        progress: Mapping[UnitId, JoinerProgress],
    ) -> bool:
        partition = self._log.partitions[address]
        end = partition.last_stable
        held = partition.committed(partition.start, end)
        return trim_to(self._log, address, min(keep_from(self._plan, table, units, running, progress, held, end), end))

    def trim_shares(self) -> None:
        """What mergers have handled, where a time closes their groups."""
        for number in range(self._plan.mergers):
            progress, address = self._log.progress.get(merger_producer(number)), Address(Topic.PARTIALS, number)
            if isinstance(progress, MergerProgress):
                partition = self._log.partitions[address]
                held = list(partition.committed(partition.start, partition.last_stable))

                def needed(watermark: int, held: Sequence = held) -> int | None:
                    return first_needed(self._plan, held, watermark)

                trim_to(self._log, address, keep_with(progress.offset, progress.watermark, needed))
