"""The terminal's tables and the two pages in `docs/`, from the same lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.engines import RUN_SECONDS_MAX, Run
from bench.machine import Machine
from bench.verdicts import Line, Verdict, quantity

MARKS = {Verdict.MET: "✔", Verdict.SHORT: "✘", Verdict.NOT_MEASURED: "?", Verdict.NOT_JUDGED: " "}
LINE_HEAD = ("", "what", "size", "target", "measured", "of target", "verdict", "note")
RUN_HEAD = ("workload", "engine", "rows a side", "seconds", "process, s", "tuples/s", "pairs", "how, or why not")
NUMBERS = {"target", "measured", "of target", "rows a side", "seconds", "process, s", "tuples/s", "pairs"}

METHOD = f"""\
The figures are of one run of `make bench` on one machine, one after the other; a figure that falls short stands as it
is. Take the ratios, not the seconds.

* **Core**: one thread, each case in a process of its own, blocks already in memory, everything compiled and warmed
  before the clock starts. In the joins both sides are stored and probed, and tuples are counted over both.
* **Engines**: files to files, all cores. The clock leaves out a JVM's start and one warm-up over a fiftieth of the
  rows: for the peers in the same process before the run, for Biclique a process before it, which fills the cache of
  compiled kernels. For the peers it runs from the query's submission until the last output file stands, for Biclique
  from the start of reading until the last file is committed. "process" is all of it, from the command to its exit: what
  the clock left out is there to be seen.
* Each engine reads the format that suits it best, and has the settings that were found best for it; the table says
  which. Biclique writes a 128-bit result id beside every pair, the others two integers.
* DuckDB and Polars are batch engines: they see all rows before they answer, and are here for orientation.
* Every run's pairs are compared, by their number and three sums, with what DuckDB finds in the same files; a run that
  differs, fails, or takes more than {RUN_SECONDS_MAX} s has no figure.
* Data: `bench/data.py`, seeded; int32 columns, `a` uniform in [0, 10n)."""

DATA_PLANE_METHOD = """\
The figures are of one run on one machine; a ratio is of one trial, so of engines that ran within minutes of each other.
Kafka to Kafka: a real broker and a real Redis, each tier a process of its own, exactly once, JSON in and out where the
line says nothing else; `python -m bench.kafka --list` names the trials, each of which runs alone as well.

* Everything that runs at once shares the machine's cores: broker, tiers or Flink, whoever writes and whoever reads.
* A throughput's clock begins when the input becomes visible, all of it at once, by the commit of the transaction in
  which it was written; it ends when the last result is readable for a read-committed reader. Every engine was up by
  then and had answered a fiftieth of the rows; the broker had carried 600,000 records before the first
  of two that are compared, since it compiles its own code while it is young, on the same cores.
* A latency begins when the broker has appended the later of two tuples and ends when a read-committed reader has their
  result in hand.
* Flink 2.3 as its users run it: SQL, parallelism 2, an interval join on event time, an exactly-once sink, a checkpoint
  every second.
* Results are compared with DuckDB's; a run that lost or doubled one has no figure.
* Semijoin: dispatchers and joiners in one process, the bytes of their messages counted; nothing is timed."""


def terminal(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [head, ["─" * width for width in widths], *rows]
    aligned = []
    for row in lines:
        cells = (
            cell.rjust(width) if name in NUMBERS else cell.ljust(width)
            for cell, width, name in zip(row, widths, head, strict=True)
        )
        aligned.append("  ".join(cells).rstrip())
    return "\n".join(aligned)


def line_rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    return [
        (
            MARKS[line.verdict],
            line.name,
            line.what,
            line.target,
            line.measured,
            "—" if line.share is None else f"{line.share:.2f}",
            line.verdict.value,
            line.note,
        )
        for line in lines
    ]


def run_rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    return [
        (
            run.workload,
            f"{run.engine} {run.version}".strip() + (" (batch)" if run.batch else ""),
            f"{run.rows:,}",
            "—" if run.seconds is None else f"{run.seconds:.2f}",
            "—" if run.seconds is None else f"{run.process_seconds:.1f}",
            "—" if run.tuples_per_second is None else quantity(run.tuples_per_second, "/s").replace("/s", "").strip(),
            "—" if run.seconds is None else f"{run.pairs:,}",
            run.how if run.seconds is not None else run.why,
        )
        for run in runs
    ]


def engine_page(
    machine: Machine,
    core: Sequence[Line],
    rivals: Sequence[Line],
    runs: Sequence[Run],
    plots: Sequence[Path],
    whole: bool,
) -> str:
    parts = ["# Benchmarks", "Written by `make bench`; not edited by hand.", _summary((*core, *rivals), whole)]
    parts.append("How fast the data plane is, Kafka to Kafka: [benchmarks-data-plane.md](benchmarks-data-plane.md).")
    parts += ["## The machine", _machine(machine), "## How it was measured", METHOD]
    if core:
        parts += ["## Core", _table(LINE_HEAD, line_rows(core)), *_pictures(plots, ("core", "growth"))]
    if rivals:
        parts += ["## The embedded engine beside its peers", _table(LINE_HEAD, line_rows(rivals))]
    if runs:
        parts += [*_pictures(plots, ("engines",)), "### Every run", _table(RUN_HEAD, run_rows(runs))]
    return "\n\n".join(parts) + "\n"


def data_plane_page(machine: Machine, lines: Sequence[Line], plots: Sequence[Path], whole: bool) -> str:
    parts = ["# Benchmarks of the data plane", "Written by `make bench`; not edited by hand.", _summary(lines, whole)]
    parts += ["## The machine", _machine(machine), "## How it was measured", DATA_PLANE_METHOD]
    parts += ["## Figures", _table(LINE_HEAD, line_rows(lines)), *_pictures(plots, ("data-plane", "semijoin"))]
    return "\n\n".join(parts) + "\n"


def _summary(lines: Sequence[Line], whole: bool) -> str:
    if not whole:
        return "**Small sizes or a part of the bench: nothing is proved by this page.**"
    met = [line.name for line in lines if line.verdict is Verdict.MET]
    short = [line.name for line in lines if line.verdict is Verdict.SHORT]
    missing = [line.name for line in lines if line.verdict is Verdict.NOT_MEASURED]
    said = f"{len(met)} of {len(met) + len(short) + len(missing)} targets are met."
    if short:
        said += f" **Short of target: {'; '.join(short)}.**"
    if missing:
        said += f" **Not measured: {'; '.join(missing)}.**"
    return said


def _machine(machine: Machine) -> str:
    busy = " **(the machine was not idle: every figure is doubtful)**" if machine.busy else ""
    facts = (
        ("processor", machine.processor),
        ("cores", str(machine.cores)),
        ("memory", f"{machine.memory_gib:.0f} GiB"),
        ("load before the first run", f"{machine.load_before:.1f}{busy}"),
        ("system", machine.system),
        ("Java", machine.java),
        ("packages", machine.packages),
        ("commit", f"{machine.commit}, {machine.date}"),
    )
    return _table(("", ""), facts)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---:" if name in NUMBERS else "---" for name in head]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))


def _pictures(plots: Sequence[Path], names: Sequence[str]) -> list[str]:
    return [f"![{plot.stem}](benchmarks/{plot.name})" for plot in plots if plot.stem in names]
