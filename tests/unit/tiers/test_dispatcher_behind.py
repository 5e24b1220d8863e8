"""A dispatcher that comes back behind its log: others have gone on, and its own records were written before it could
say anything of them. They are not late for that."""

from __future__ import annotations

from typing import Any

from biclique.plan.table import first_table
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import (
    Commit,
    Consult,
    Fence,
    Fetched,
    Orders,
    Outcome,
    Read,
    ReadClock,
    ReadProgress,
    ReadTable,
)
from biclique.tiers.loops import ReadLimits, dispatcher_loop
from biclique.tiers.messages import LateTuples, Record, Topic
from biclique.tiers.progress import DispatcherProgress, SourcePartition
from tests.unit.tiers.building import beat, plan, signal, source_block

SECOND = 1_000_000
OTHER = dispatcher_producer(0)


def committed(shuffled: list[Record], signals: list[Record], turns: int) -> list[Commit]:
    """By the second of two dispatchers, of source s, whose logs hold all of this when it begins."""
    made = plan("SELECT r.k FROM r JOIN s ON r.k = s.k WITHIN 60 SECONDS", extra="  topics: {partitions: 2}")
    table, logs = first_table(made), {Topic.SHUFFLED: shuffled, Topic.SIGNALS: signals}
    loop = dispatcher_loop(made, 1, [SourcePartition(1, 0)], ReadLimits(turn_records=8))
    found: list[Commit] = []
    answer: Any = None
    while len(found) < turns:
        effect = loop.send(answer)
        match effect:
            case Fence():
                answer = 1
            case ReadProgress():
                answer = DispatcherProgress()
            case Consult():
                answer = Orders()
            case Read(address, at, limit):
                log = logs[address.topic]
                some = tuple(enumerate(log))[at : at + limit]
                answer = Fetched(some, at + len(some), 0, len(log))
            case ReadTable():
                answer = table
            case ReadClock():
                answer = 60_000 + 1_000 * len(found)
            case Commit():
                found.append(effect)
                answer = Outcome.COMMITTED
            case _:
                answer = None
    return found


def test_what_was_written_while_it_was_away_is_not_late_by_what_others_say_now() -> None:
    beats = [beat(-1, 1000 * second, source=1) for second in range(1, 21)]
    burst = source_block([0, 1, 2], times=[20 * SECOND] * 3, source=1)
    others = [signal(OTHER, 55_000, watermark=55 * SECOND)]
    turns = committed([*beats, burst], others, 4)
    sent = [record for turn in turns for _, record in turn.sends]
    assert not [record for record in sent if isinstance(record, LateTuples)]
    watermarks = [turn.progress.watermark for turn in turns if isinstance(turn.progress, DispatcherProgress)]
    assert max(watermarks) <= 20 * SECOND, "it was told of nothing later that is its own"


def test_at_its_end_it_follows_the_others() -> None:
    beats = [beat(-1, 1000 * second, source=1) for second in range(1, 21)]
    turns = committed(list(beats), [signal(OTHER, 55_000, watermark=55 * SECOND)], 4)
    progress = turns[-1].progress
    assert isinstance(progress, DispatcherProgress) and progress.watermark == 55 * SECOND
