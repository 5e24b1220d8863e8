"""What a unit's transactions may hold over Kafka, so that one is done well before it times out.

    30 s      what a transaction may take (ports/kafka_log.py); it is open meanwhile, and holds up every reader
    64 MiB    of rows, some 200 MB as JSON: a few seconds on a healthy broker

A broker that is ten times slower still manages; for one that does not, each unknown outcome in a row halves them
(`halvings`), and a healthy run forgets it. The number lives in the tier's driver, which survives the unit
(restarts.py). How results are cut into transactions decides nothing (tiers/matching.py).
"""

from __future__ import annotations

from dataclasses import replace

from biclique.tiers.joiner import JoinerLimits
from biclique.tiers.loops import JOINER_LIMITS, READ_LIMITS, ReadLimits
from biclique.tiers.matching import BatchMax
from biclique.tiers.merger import WrittenMax

MATCHES, BYTES = 1 << 18, 1 << 26
HALVINGS_MAX = 12


def _halved(most: int, halvings: int) -> int:
    return max(1, most >> min(halvings, HALVINGS_MAX))


def reads(halvings: int) -> ReadLimits:
    return replace(
        READ_LIMITS,
        turn_records=_halved(READ_LIMITS.turn_records, halvings),
        turn_bytes=_halved(READ_LIMITS.turn_bytes, halvings),
    )


def joining(halvings: int) -> JoinerLimits:
    return replace(JOINER_LIMITS, batch_max=BatchMax(_halved(MATCHES, halvings), _halved(BYTES, halvings)))


def writing(halvings: int) -> WrittenMax:
    most = WrittenMax()
    return WrittenMax(_halved(most.groups, halvings), _halved(BYTES, halvings))
