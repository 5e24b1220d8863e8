"""The `biclique` command: parses arguments, and turns every foreseen failure into one sentence and an exit code.

| code | means                                                                          |
|------|--------------------------------------------------------------------------------|
| 0    | done                                                                           |
| 2    | what the user gave is wrong: the sentence says where, and what to do about it   |
| 3    | stopped at a checkpoint for want of memory                                     |
| 4    | something outside the query failed (Spark, a disk); the sentence says what     |
| 5    | Kafka or Redis refuses, or what they hold does not suit: mend it and go on     |
| 6    | a pod was given an older copy of its manifest than it was made for: start anew |
| 130  | stopped at a checkpoint, as asked (Ctrl-C)                                     |
"""

from __future__ import annotations

import json
import math
import os
import sys
from pathlib import Path

import click

from biclique.cli.stating import FAILED, USER_ERROR, stating_errors

MANIFEST = click.argument("manifest", type=click.Path(path_type=Path))
STATISTICS = click.option(
    "--stat",
    "statistics",
    multiple=True,
    metavar="NAME=NUMBER",
    help="What you know of the data: orders.rate=5000, orders.distinct=1e6, band=1e-6, ... (repeatable).",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="biclique")
def cli() -> None:
    """Joins of unbounded streams on any predicate, exactly once."""


def _finite(context: click.Context, option: click.Parameter, value: float) -> float:
    """What click's range lets pass: nothing compares with nan, and inf is above all."""
    if not math.isfinite(value):
        raise click.BadParameter(f"{value} is no number of seconds; write one such as 10.", context, option)
    return value


@cli.command()
@MANIFEST
@click.option("--follow", is_flag=True, help="Keep watching the folders for new files.")
@click.option("--checkpoint", type=click.Path(path_type=Path), help="Default: _checkpoint in the output folder.")
@click.option("--restart", is_flag=True, help="Remove what earlier runs of this query wrote, and begin anew.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option(
    "--barrier",
    type=click.FloatRange(min=0.05),
    default=10.0,
    show_default=True,
    callback=_finite,
    help="Seconds between checkpoints.",
)
@STATISTICS
def run(
    manifest: Path,
    follow: bool,
    checkpoint: Path | None,
    restart: bool,
    as_json: bool,
    barrier: float,
    statistics: tuple[str, ...],
) -> None:
    """Run a query on the files of this machine."""
    from biclique.cli.run import run_manifest  # imports the engine: not for --help

    with stating_errors():
        sys.exit(run_manifest(manifest, follow, checkpoint, restart, as_json, barrier, statistics))


@cli.command()
@click.argument("name", type=click.Choice(["shuffler", "dispatcher", "joiner", "merger"]))
@MANIFEST
@click.option("--subgroup", metavar="0L0", help="Of the joiners: this subgroup's alone.")
def tier(name: str, manifest: Path, subgroup: str | None) -> None:
    """Run one tier of a query over Kafka, in the foreground (see docs/data-plane.md)."""
    from biclique.cli.tier import run as run_tier

    with stating_errors():
        run_tier(name, manifest, subgroup)


@cli.command()
@MANIFEST
def validate(manifest: Path) -> None:
    """Check a manifest: the same checks as everywhere."""
    from biclique.cli.loading import load
    from biclique.plan.make import make_plan

    with stating_errors():
        query = load(manifest)
        make_plan(query)  # what the planner refuses, it refuses here too
        relations = ", ".join(relation.name for relation in query.relations)
        click.echo(f"{manifest} is good: {query.name} joins {relations}.")


@cli.command()
@MANIFEST
@click.option("--json", "as_json", is_flag=True, help="Print the plan as one JSON object.")
@STATISTICS
def explain(manifest: Path, as_json: bool, statistics: tuple[str, ...]) -> None:
    """Show the plan of a query, and what it is expected to cost."""
    from biclique.cli.loading import load
    from biclique.plan.describe import describe
    from biclique.plan.explain import explain as explained
    from biclique.plan.given import given_statistics
    from biclique.plan.make import make_plan

    with stating_errors():
        query = load(manifest)
        known = given_statistics(query, statistics)
        plan = make_plan(query, known)
        if as_json:
            click.echo(json.dumps(describe(plan, known), indent=2, ensure_ascii=False, allow_nan=False))
        else:
            click.echo(explained(plan, known), nl=False)


@cli.command()
@click.option("--kernels", is_flag=True, help="Compile ahead what queries are joined with, and leave Spark alone.")
def prepare(kernels: bool) -> None:
    """Keep the classes that Spark loads, once a machine: every later start takes half as long."""
    with stating_errors():
        if kernels:
            from biclique.hosts.kernels_ahead import compile_ahead

            click.echo(f"{os.environ['NUMBA_CACHE_DIR']}: what {compile_ahead()} queries need")
            return
        from biclique.hosts.preparing import NotMade, make_archive

        click.echo("Spark starts once and is let run …", err=True)
        try:
            made = make_archive()
        except NotMade as failure:
            click.echo(f"biclique: {failure}", err=True)
            sys.exit(FAILED)
        click.echo(f"{made} ({made.stat().st_size / 1e6:.0f} MB)")


def keep_compiled_kernels() -> None:
    """In the user's cache, where make keeps them too: beside the sources they would be compiled again for each
    checkout, and could not be kept at all where the package is not ours to write. Needed before numba is imported."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(cache) / "biclique" / "numba"))


def main() -> None:
    keep_compiled_kernels()
    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as end:
        sys.exit(end.exit_code)
    except click.ClickException as error:
        click.echo(f"biclique: {error.format_message()}", err=True)
        sys.exit(USER_ERROR)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
