"""Where each source partition is read from, and that it still can be.

The choice of `startingOffsets` is made once, when the query is founded: `latest` and a time become the place before the
first record, and stand in the dispatchers' first progress, as if everything up to there had been taken. From then on a
start is always behind what a dispatcher has taken, and behind what was found to hold no record at the end of what it
had taken (tiers/dispatcher.py, heartbeats); no restart chooses anew. `earliest` needs no place: as long as
nothing of a partition was taken, it begins with what is there. So does a partition that is added later.

A retention may remove records that were read and not taken yet, while their dispatcher is down: they are on their way,
in shuffled. What was never read begins behind them, and it shows only when they have been taken. So a start that lies
before all that its topic holds waits for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from biclique.core.places import last_place, next_offset, row_bits
from biclique.ports.log import Bounds
from biclique.ports.refusals import UnfitTopic, Unreachable
from biclique.query.model import Kafka, Query, Source
from biclique.query.moments import microseconds_of
from biclique.tiers.progress import SourcePartition

ANEW = "begin the query anew under another BICLIQUE_PREFIX"


class Topics(Protocol):
    """What is asked of the sources' topics (ports/kafka_sources.py)."""

    def partitions(self) -> tuple[SourcePartition, ...]: ...
    def bounds(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, Bounds]: ...
    def ends(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, int]: ...
    def undecided(self, ends: Mapping[SourcePartition, int]) -> frozenset[SourcePartition]: ...
    def from_time(self, keys: Iterable[SourcePartition], time_ms: int) -> dict[SourcePartition, int]: ...


def first_places(query: Query, topics: Topics) -> dict[SourcePartition, int]:
    """For the dispatchers' first progress: of the partitions that do not begin with what is there, the place before
    the first record to take."""
    places: dict[SourcePartition, int] = {}
    keys = topics.partitions()
    for number, source in enumerate(query.sources):
        mine = [key for key in keys if key.source == number]
        if not isinstance(source.input, Kafka) or source.input.starting_offsets == "earliest":
            continue
        if source.input.starting_offsets == "latest":
            offsets = topics.ends(mine)
        else:
            micros = microseconds_of(source.input.starting_offsets)
            assert micros is not None, "the manifest's model lets nothing else through"
            offsets = topics.from_time(mine, -(-micros // 1000))
        places |= {key: last_place(offset - 1, row_bits(source)) for key, offset in offsets.items()}
    return places


def _nothing(key: SourcePartition) -> bool:
    return False


def starts_of(
    query: Query,
    taken: Mapping[SourcePartition, int],
    topics: Topics,
    anew: str = ANEW,
    under_way: Callable[[SourcePartition], bool] = _nothing,
) -> dict[SourcePartition, int]:
    """The offset of the first message to read of every source partition. `taken`: the place of the last record that
    dispatchers have taken, where there is one; `under_way`: whether more may be on its way to them. Raises UnfitTopic
    where what comes next cannot be had any more, and Unreachable as long as that cannot be told. `anew`: how a person
    begins the query again."""
    bounds = topics.bounds(topics.partitions())
    starts: dict[SourcePartition, int] = {}
    for key, found in bounds.items():
        source = query.sources[key.source]
        behind = next_offset(taken[key], row_bits(source)) if key in taken else 0
        if behind < found.start and under_way(key):
            raise Unreachable(
                f"topic {_topic_of(source)} begins at offset {found.start} of partition {key.partition}, and offsets "
                f"from {behind} on may be on their way to a dispatcher that is down or behind: it is read on when that "
                "has taken them"
            )
        if key in taken:
            starts[key] = behind
            _refuse_lost(source, key, behind, found, anew)
        else:
            starts[key] = found.start
    for key in taken:
        if key not in bounds:
            raise _anew(query.sources[key.source], f"has no partition {key.partition} any more", anew)
    return starts


def _topic_of(source: Source) -> str:
    assert isinstance(source.input, Kafka)
    return source.input.topic


def _refuse_lost(source: Source, key: SourcePartition, start: int, found: Bounds, anew: str) -> None:
    if start > found.end:
        what = f"ends at offset {found.end} of partition {key.partition}, and was read up to {start - 1} before"
        raise _anew(source, what, anew)
    if start < found.start:
        raise UnfitTopic(
            f"topic {_topic_of(source)} begins at offset {found.start} of partition {key.partition}, and offsets from"
            f" {start} on were not read yet: its retention is shorter than the query was behind; {anew}, without them,"
            " and keep the topic longer"
        )


def _anew(source: Source, what: str, anew: str) -> UnfitTopic:
    return UnfitTopic(f"topic {_topic_of(source)} {what}: it was deleted and made anew; {anew}")
