"""`biclique run`: the embedded engine with a person, or a program, at the other end."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

import click

from biclique.cli.display import Display
from biclique.cli.loading import keys_without_use, load
from biclique.cli.stating import DONE, FAILED, INTERRUPTED, OUT_OF_MEMORY, same_command
from biclique.hosts.embedded import Ending, Engine, Options, Outcome
from biclique.hosts.reading import ReadingFailed
from biclique.hosts.spark import SparkFailed
from biclique.hosts.summary import as_text
from biclique.plan.given import given_statistics
from biclique.plan.make import make_plan
from biclique.plan.model import Transport
from biclique.ports.refusals import Unreachable


class Stopping:
    """The first Ctrl-C (or SIGTERM) asks for a stop at a checkpoint; the second one quits at once."""

    def __init__(self) -> None:
        self.asked = False
        for name in (signal.SIGINT, signal.SIGTERM):
            signal.signal(name, self._asked)

    def _asked(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            os._exit(INTERRUPTED)
        self.asked = True
        os.write(2, b"\nstopping at a checkpoint (once more: at once)\n")

    def __call__(self) -> bool:
        return self.asked


def run_manifest(
    manifest: Path,
    follow: bool,
    checkpoint: Path | None,
    restart: bool,
    as_json: bool,
    barrier: float,
    statistics: Sequence[str],
) -> int:
    query = load(manifest)
    # Here nothing travels, and shuffled is no longer than what has not been handled: no payload could wait in it.
    query = replace(query, hints=replace(query.hints, transport=Transport.TUPLES.value))
    plan = make_plan(query, given_statistics(query, statistics))
    stopping = Stopping()
    display = Display(query, sys.stderr)
    options = Options(follow=follow, restart=restart, checkpoint=checkpoint, barrier_seconds=barrier)
    engine = Engine(plan, options, stopping, display)
    keys = keys_without_use(manifest)
    if keys:
        click.echo(f"biclique: one machine has no use for {', '.join(keys)}: it goes on without", err=True)
    try:
        with display:
            outcome = engine.run()
    except (SparkFailed, ReadingFailed) as error:
        click.echo(f"biclique: {error}", err=True)
        return FAILED
    except Unreachable as error:
        remedy = f"correct bootstrapServers, or wait for it: the same command goes on from here: {same_command()}"
        click.echo(f"biclique: {error}; {remedy}", err=True)
        return FAILED
    _tell(outcome, engine, as_json)
    if outcome.ending in (Ending.STOPPED, Ending.OUT_OF_MEMORY):
        reason = "stopped" if outcome.ending is Ending.STOPPED else _memory_sentence(engine)
        click.echo(f"biclique: {reason}; the same command goes on from here: {same_command()}", err=True)
    return {
        Ending.FINISHED: DONE,
        Ending.NOTHING_TO_DO: DONE,
        Ending.STOPPED: INTERRUPTED,
        Ending.OUT_OF_MEMORY: OUT_OF_MEMORY,
    }[outcome.ending]


def _memory_sentence(engine: Engine) -> str:
    return (
        "a unit has used up its memory (joiners.memory): raise it; or give the query more units (joiners.replicas) or a"
        " narrower window, and begin anew with --restart"
    )


def _tell(outcome: Outcome, engine: Engine, as_json: bool) -> None:
    if as_json:
        body = {"ending": outcome.ending.value, "output": str(engine.root), "checkpoint": str(outcome.checkpoint)}
        if outcome.summary is not None:
            body |= outcome.summary.to_json()
        click.echo(json.dumps(body))
    elif outcome.summary is not None:
        click.echo(as_text(outcome.summary))
        click.echo(f"output: {engine.root}")
    else:
        click.echo(f"This run has finished before: its output is in {engine.root}. To begin anew: --restart")
