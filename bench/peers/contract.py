"""What every driver is given and what it answers: all that the peers' environments share. Standard library only.

A driver joins side r with side s, files to files, twice in one process: first a small data set, which is not measured
(the stated warm-up: classes loaded, code compiled), then the real one. The clock runs from the query's submission,
planning included, until its last output file stands; a JVM's start is outside it. The answer is one line of JSON on
stdout.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

WORKLOADS = ("equality", "band", "two inequalities")
REACH = 5  # the band is |r.a - s.a| <= REACH
WIDTH = 4 * REACH  # of a bucket, where the rewrite is ours to write: half of the rows fall into two buckets
CORES = len(os.sched_getaffinity(0))

# Half of the memory, all of it from the start, and the collector made for throughput: in single runs of 1M rows a side
# both Java engines took about twice as long with the defaults.
_HEAP_GIB = max(1, min(10, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**31))
JVM = f"-Xms{_HEAP_GIB}g -Xmx{_HEAP_GIB}g -XX:+UseParallelGC"


@dataclass(frozen=True)
class Task:
    """`data` and `warm_up` hold `<format>/<side>/part-<i>.<format>`; `output` is emptied before each run."""

    workload: str
    rows: int
    data: Path
    warm_up: Path
    output: Path


@dataclass(frozen=True)
class Answer:
    peer: str
    version: str
    workload: str
    rows_a_side: int
    seconds: float
    tuples_per_second: float
    how: str  # what a reader must know to judge the number: formats, settings, rewrite


def task() -> Task:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--warm-up", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    return Task(**vars(parser.parse_args()))


def drive(peer: str, version: str, how: str, join: Callable[[str, Path, Path], None]) -> None:
    """`join(workload, data, output)` returns when the output files stand. Pairs are counted by whoever asked."""
    asked = task()
    seconds = 0.0
    for data in (asked.warm_up, asked.data):
        shutil.rmtree(asked.output, ignore_errors=True)
        asked.output.mkdir(parents=True)
        begin = time.perf_counter()
        join(asked.workload, data, asked.output)
        seconds = time.perf_counter() - begin
    answer = Answer(peer, version, asked.workload, asked.rows, seconds, 2 * asked.rows / seconds, how)
    print(json.dumps(asdict(answer)), flush=True)
