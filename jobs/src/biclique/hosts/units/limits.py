"""What a unit's transactions may hold over Kafka, so that one is done well before it times out.

    30 s      what a transaction may take (ports/kafka_log.py); it is open meanwhile, and holds up every reader
    64 MiB    of rows, some 200 MB as JSON: a few seconds on a healthy broker

A broker that is ten times slower still manages; for one that does not, each unknown outcome in a row halves them
(`halvings`), and a healthy run forgets it. The number lives in the tier's driver, which survives the unit
(restarts.py). How results are cut into transactions decides nothing (tiers/matching.py).
"""

from __future__ import annotations

from dataclasses import replace

from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.kafka_reading import READ_BYTES_MAX
from biclique.tiers.joiner_limits import JoinerLimits, limits_within
from biclique.tiers.loops import READ_LIMITS, ReadLimits
from biclique.tiers.matching import BatchMax
from biclique.tiers.merger import WrittenMax
from biclique.tiers.pressure import MemoryBudget

MATCHES, BYTES = 1 << 18, 1 << 26
SLOW_START = 4  # halvings with which a unit begins: a second later it takes all it may
IN_FLIGHT_BYTES = 1 << 28  # of all dispatchers, or of one joiner: some seconds of what their readers handle
PROGRAM_BYTES = 256 << 20  # of a Python worker with all libraries loaded
DISPATCHER_COPIES = 4  # of a turn: as read, as stamped, as routed, as messages
TURN_BYTES_MIN = 1 << 18  # one record of shuffled is taken in any case
HALVINGS_MAX = 12


def _halved(most: int, halvings: int) -> int:
    return max(1, most >> min(halvings, HALVINGS_MAX))


def reads(halvings: int, plan: Plan) -> ReadLimits:
    return replace(
        READ_LIMITS,
        turn_records=_halved(READ_LIMITS.turn_records, halvings),
        turn_bytes=_halved(turn_bytes(plan), halvings),
        slow_start=SLOW_START,
        in_flight_bytes=IN_FLIGHT_BYTES // plan.dispatchers,
    )


def joining(halvings: int, memory: MemoryBudget) -> JoinerLimits:
    within = limits_within(memory)
    batch = BatchMax(_halved(MATCHES, halvings), _halved(min(BYTES, within.batch_max.bytes), halvings))
    return replace(within, batch_max=batch, slow_start=SLOW_START, in_flight_bytes=IN_FLIGHT_BYTES)


def writing(halvings: int, memory: MemoryBudget) -> WrittenMax:
    most = WrittenMax()
    return WrittenMax(_halved(most.groups, halvings), _halved(min(BYTES, memory.batch_bytes), halvings))


# --- memory ----------------------------------------------------------------------------------------------------------


def budget_of(plan: Plan, tier: str) -> MemoryBudget:
    """Of one unit: a joiner's is what the manifest says. The others share what the pods of their tier have, less what
    the program itself takes in each of them."""
    hints = plan.query.hints
    match tier:
        case "joiner":
            return MemoryBudget(hints.memory_bytes)
        case "dispatcher":
            return _share(hints.dispatchers_bytes, plan.dispatchers)
        case "merger":
            return _share(hints.mergers_bytes, plan.mergers)
    raise AssertionError(tier)


def _share(pods_bytes: int, units: int) -> MemoryBudget:
    share = pods_bytes // max(1, units)
    return MemoryBudget(max(share - PROGRAM_BYTES, share // 4))


def turn_bytes(plan: Plan) -> int:
    """What a dispatcher sends in one transaction: its own share of memory holds it several times over, and each unit
    can handle in one step what all dispatchers send it."""
    joiner = budget_of(plan, "joiner").step_bytes * len(first_table(plan).units()) // plan.dispatchers
    return max(TURN_BYTES_MIN, min(BYTES, budget_of(plan, "dispatcher").bytes // DISPATCHER_COPIES, joiner))


def read_bytes(plan: Plan, tier: str) -> int:
    budget = budget_of(plan, tier)
    share = budget.bytes // DISPATCHER_COPIES if tier == "dispatcher" else budget.batch_bytes
    return max(TURN_BYTES_MIN, min(READ_BYTES_MAX, share))
