"""What a run on files must not forget, as one JSON file that is replaced atomically: `checkpoint.json`.

It names a *barrier*: a moment when every loop had handled all that there was. With it come the progress of every
producer, the end of every partition of the log (empty behind it, so the log itself is not kept), how far each source
has been read, and the part files that the barrier made true. Blobs and manifests of the joiners' state are in the
checkpoint store, put there before; a manifest that is newer than the barrier is refused by whoever restores.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xxhash

from biclique.ports.file_sink import replace_file
from biclique.ports.file_source import InputFile
from biclique.ports.progress_json import decode_progress, encode_progress
from biclique.tiers.messages import Address, Producer, Topic
from biclique.tiers.progress import Progress

NAME = "checkpoint.json"
VERSION = 4


class DamagedState(Exception):
    """The file is there and is not what was written."""


@dataclass(frozen=True, slots=True)
class Span:
    """A partition of a topic is read from `begin` up to `end`; None: as long as the run follows."""

    partition: int
    begin: int
    end: int | None


@dataclass(frozen=True, slots=True)
class SourceState:
    """`files`: all that were ever discovered, by ordinal. The next row to read is `row` of file `ordinal`. `spans`: of
    a source that is a topic; how far each has been taken is in the progress of its dispatcher."""

    files: tuple[InputFile, ...] = ()
    ordinal: int = 0
    row: int = 0
    resume: int = 0
    rows: int = 0  # of files that are done with, and of this one up to `row`
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class RunState:
    """`fingerprint`: of the query; `attempt`: of the process that wrote this; `parts`: the files of this barrier;
    `manifests`: the frontier of the newest manifest of each unit at this barrier; `totals`: counters that go on over
    restarts; `finished`: all input was read and all output is there."""

    fingerprint: str
    attempt: int
    barrier: int = 0
    finished: bool = False
    progress: Mapping[Producer, Progress] = field(default_factory=dict)
    ends: Mapping[Address, int] = field(default_factory=dict)
    sources: tuple[SourceState, ...] = ()
    parts: tuple[str, ...] = ()
    manifests: Mapping[Producer, int] = field(default_factory=dict)
    totals: Mapping[str, int] = field(default_factory=dict)


def save_state(folder: Path, state: RunState) -> None:
    body = json.dumps(_to_json(state), separators=(",", ":")).encode()
    replace_file(folder / NAME, b"%016x\n" % xxhash.xxh64_intdigest(body) + body)


def load_state(folder: Path) -> RunState | None:
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    checksum, newline, body = data.partition(b"\n")
    if not newline or checksum != b"%016x" % xxhash.xxh64_intdigest(body):
        raise DamagedState(f"{folder / NAME} is damaged")
    values = json.loads(body)
    if values["version"] != VERSION:
        raise DamagedState(f"{folder / NAME} is of another version of Biclique")
    return _of_json(values)


def _to_json(state: RunState) -> dict[str, Any]:
    return {
        "version": VERSION,
        "fingerprint": state.fingerprint,
        "attempt": state.attempt,
        "barrier": state.barrier,
        "finished": state.finished,
        "progress": [[*owner, encode_progress(progress)] for owner, progress in state.progress.items()],
        "ends": [[address.topic.value, address.partition, end] for address, end in state.ends.items()],
        "sources": [
            {
                "files": [[f.ordinal, f.name, f.path, f.size, f.mtime_ns] for f in source.files],
                "at": [source.ordinal, source.row, source.resume, source.rows],
                "spans": [[span.partition, span.begin, span.end] for span in source.spans],
            }
            for source in state.sources
        ],
        "parts": list(state.parts),
        "manifests": [[*owner, frontier] for owner, frontier in state.manifests.items()],
        "totals": dict(state.totals),
    }


def _of_json(values: dict[str, Any]) -> RunState:
    return RunState(
        values["fingerprint"],
        values["attempt"],
        values["barrier"],
        values["finished"],
        {Producer(tier, name): decode_progress(progress) for tier, name, progress in values["progress"]},
        {Address(Topic(topic), partition): end for topic, partition, end in values["ends"]},
        tuple(
            replace(
                SourceState(tuple(InputFile(*file) for file in source["files"]), *source["at"]),
                spans=tuple(Span(*span) for span in source["spans"]),
            )
            for source in values["sources"]
        ),
        tuple(values["parts"]),
        {Producer(tier, name): frontier for tier, name, frontier in values["manifests"]},
        values["totals"],
    )
