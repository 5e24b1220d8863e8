"""Where each source partition is read from, and that it still can be.

The choice of `startingOffsets` is made once, when the query is founded: `latest` and a time become the place before the
first record, and stand in the dispatchers' first progress, as if everything up to there had been taken. From then on a
start is always behind what a dispatcher has taken; no restart chooses anew. `earliest` needs no place: as long as
nothing of a partition was taken, it begins with what is there. So does a partition that is added later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from biclique.core.places import last_place, next_offset, row_bits
from biclique.ports.log import Bounds
from biclique.ports.refusals import UnfitTopic
from biclique.query.model import Kafka, Query, Source
from biclique.query.moments import microseconds_of
from biclique.tiers.progress import SourcePartition


class Topics(Protocol):
    """What is asked of the sources' topics (ports/kafka_sources.py)."""

    def partitions(self) -> tuple[SourcePartition, ...]: ...
    def bounds(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, Bounds]: ...
    def ends(self, keys: Iterable[SourcePartition]) -> dict[SourcePartition, int]: ...
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


def starts_of(query: Query, taken: Mapping[SourcePartition, int], topics: Topics) -> dict[SourcePartition, int]:
    """The offset of the first message to read of every source partition. `taken`: the place of the last record that
    dispatchers have taken, where there is one. Raises UnfitTopic where what comes next cannot be had any more."""
    bounds = topics.bounds(topics.partitions())
    starts: dict[SourcePartition, int] = {}
    for key, found in bounds.items():
        source = query.sources[key.source]
        if key in taken:
            starts[key] = next_offset(taken[key], row_bits(source))
            _refuse_lost(source, key, starts[key], found)
        else:
            starts[key] = found.start
    for key in taken:
        if key not in bounds:
            raise _anew(query.sources[key.source], f"has no partition {key.partition} any more")
    return starts


def _refuse_lost(source: Source, key: SourcePartition, start: int, found: Bounds) -> None:
    if start > found.end:
        raise _anew(
            source, f"ends at offset {found.end} of partition {key.partition}, and was read up to {start - 1} before"
        )
    if start < found.start:
        assert isinstance(source.input, Kafka)
        raise UnfitTopic(
            f"topic {source.input.topic} begins at offset {found.start} of partition {key.partition}, and offsets from"
            f" {start} on were not read yet: its retention is shorter than the query was behind; begin the query anew"
            " under another BICLIQUE_PREFIX, without them, and keep the topic longer"
        )


def _anew(source: Source, what: str) -> UnfitTopic:
    assert isinstance(source.input, Kafka)
    return UnfitTopic(
        f"topic {source.input.topic} {what}: it was deleted and made anew; begin the query anew under another"
        " BICLIQUE_PREFIX"
    )
