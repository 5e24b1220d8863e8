"""What dispatchers read, trimmed by what they and the units have committed: signals, and shuffled where units fetch
payload from it (tiers/payload_trimming.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from biclique.routing.table import RoutingTable, UnitId
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.messages import Address, Topic, unit_address
from biclique.tiers.payload_trimming import keep_shuffled_from, referred_in
from biclique.tiers.progress import DispatcherProgress, JoinerProgress
from biclique.tiers.trimming import keep_signals_from
from tests.simulation.coverage import TRIMMED_PAYLOAD
from tests.simulation.fake_log import FakeLog
from tests.simulation.hosting import Hosting
from tests.simulation.trimmer import trim_to


def trim_for_dispatchers(
    tiers: Hosting, log: FakeLog, tables: Sequence[RoutingTable], units: Mapping[UnitId, JoinerProgress], heard_to: int
) -> Counter[str]:
    """Behind the trimming of the units' partitions; `units`: every one that ever ran; `heard_to`: by the operator."""
    known = [log.progress.get(dispatcher_producer(n)) for n in range(tiers.plan.dispatchers)]
    dispatchers = [progress for progress in known if isinstance(progress, DispatcherProgress)]
    if len(dispatchers) < len(known):
        return Counter()
    trim_to(log, Address(Topic.SIGNALS, 0), min(keep_signals_from(dispatchers), heard_to))
    if tiers.plan.may_leave_payload:
        return _trim_shuffled(tiers, log, dispatchers, tables, units)
    for number, progress in enumerate(dispatchers):
        trim_to(log, Address(Topic.SHUFFLED, number), progress.offset)
    return Counter()


def _trim_shuffled(
    tiers: Hosting,
    log: FakeLog,
    dispatchers: Sequence[DispatcherProgress],
    tables: Sequence[RoutingTable],
    units: Mapping[UnitId, JoinerProgress],
) -> Counter[str]:
    referred, counted = {}, Counter[str]()
    for address in {unit_address(unit) for unit in units}:
        frontier = max(progress.frontier for unit, progress in units.items() if unit_address(unit) == address)
        partition = log.partitions[address]
        held = partition.committed(partition.start, partition.last_stable)
        referred[address] = referred_in(tiers.plan, held, partition.start, frontier)
    for number, progress in enumerate(dispatchers):
        address = Address(Topic.SHUFFLED, number)
        keep = keep_shuffled_from(number, progress, tables[progress.version], referred)
        counted[TRIMMED_PAYLOAD] += trim_to(log, address, keep)
    return counted
