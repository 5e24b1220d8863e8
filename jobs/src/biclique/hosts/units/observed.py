"""Performs a unit's effects and tells telemetry what they took: the one place where a unit is measured.

A loop asks for everything that takes time outside itself, so the effects and the time between them are the whole of a
unit's life. Where no telemetry is wanted this is not there at all (`run_unit` hands the effects straight to the
performer); what then remains is a call of nothing for each phase of a joiner's step.

What is shown as it stands is followed beside it (standing.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from biclique.hosts.units.following import DispatcherFollowing, StepFollowing
from biclique.hosts.units.standing import MACHINE, SECOND_NS, Clocks, Standing
from biclique.plan.model import Plan
from biclique.ports.metrics import OUTCOME
from biclique.ports.telemetry import Point, Span, Telemetry
from biclique.tiers.effects import (
    BlobsLost,
    Commit,
    Consult,
    Effect,
    Fence,
    Fetched,
    GetBlob,
    LoadManifests,
    Orders,
    Outcome,
    Publication,
    PublishManifest,
    PutBlob,
    Read,
    ReadProgress,
)
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Results, Topic
from biclique.tiers.phases import Phase

PAGE_BYTES = 4096
STATM = Path("/proc/self/statm")


class Observed:
    """`perform`: who answers. `watch`: the loop's. `attempt`: which start of the unit this is, from 1."""

    def __init__(
        self,
        perform: Callable[[Effect], Any],
        telemetry: Telemetry,
        plan: Plan,
        tier: str,
        watch: Watch,
        attempt: int,
        clocks: Clocks = MACHINE,
    ) -> None:
        self._perform, self._telemetry, self._plan, self._tier, self._watch = perform, telemetry, plan, tier, watch
        self._attempt, self._clocks = attempt, clocks
        self.standing = Standing(plan, tier, watch, clocks)
        name = "join" if tier == "joiner" else "merge"
        self._following: DispatcherFollowing | StepFollowing = (
            DispatcherFollowing(telemetry, plan) if tier == "dispatcher" else StepFollowing(telemetry, name)
        )
        watch.mark = self._mark
        now = clocks.steady()
        self._offset = clocks.wall() - now
        self._ended = self._read_ended = now
        self._open_phase: tuple[Phase, int] | None = None
        self._spent: dict[Phase, int] = {}
        self._seal_since: int | None = None
        self._sealed_bytes = self._checkpoint_bytes = 0
        self._started, self._restoring, self._replaying = now, True, False
        self._restore_span = telemetry.begin("restore", self._wall(now), rare=True)
        self._replay_span: Span | None = None
        telemetry.show(self._points)

    def __call__(self, effect: Effect) -> Any:
        began = self._clocks.steady()
        if isinstance(effect, Commit):
            self._close_phase(began)
            self._offset = self._clocks.wall() - began
            effect = self._sending(effect, began)
        self.standing.asks(effect)
        answer = self._perform(effect)
        ended = self._clocks.steady()
        self.standing.follow(effect, answer, began, ended)
        match effect:
            case Read(address, _, _):
                if address.topic is self.standing.input:
                    self._read(answer, began, ended)
                elif address.topic is Topic.SHUFFLED:
                    self._fetched(began, ended)
            case Commit():
                self._sent(effect, answer, began, ended)
            case Consult():
                self._consulted(answer, ended)
            case PutBlob(_, data):
                self._seal_since = self._ended if self._seal_since is None else self._seal_since
                self._sealed_bytes += len(data)
            case PublishManifest():
                self._published(answer, ended)
            case Fence() | ReadProgress() | LoadManifests() | GetBlob():
                self._restored_part(effect, began, ended)
            case _:
                pass
        self._ended = ended
        return answer

    def end(self, failure: str) -> None:
        """Nothing more is performed: what is under way is told as far as it has come. `failure`: what broke it off;
        empty: it was to end."""
        now = self._clocks.steady()
        if self._restoring and self._restore_span is not None:
            self._restore_span.end(self._wall(now), failure=failure)
        if self._replaying and self._replay_span is not None:
            self._replay_span.end(self._wall(now), failure=failure)
        if self._seal_since is not None:
            self._end_checkpoint(self._seal_since, now, failure or Publication.UNAVAILABLE.value)
        self._following.end(now, self._wall, failure)
        self._restoring = self._replaying = False

    def _wall(self, steady: int) -> int:
        return steady + self._offset

    # --- input and transactions --------------------------------------------------------------------------------------

    def _read(self, fetched: Fetched, began: int, ended: int) -> None:
        self._read_ended = ended
        if self._telemetry.tracing and fetched.records:
            watch = self._watch
            logic = watch.joiner or watch.merger
            self._following.read(fetched.records, began, ended, logic.progress.frontier if logic else -1)

    def _sending(self, commit: Commit, now: int) -> Commit:
        if self._tier == "merger":
            self._record("biclique.merge.duration", now - self._read_ended)
            if self._telemetry.tracing:
                self._following.phase(Phase.EMIT, self._read_ended, now, self._wall)
        elif self._tier == "dispatcher":
            self._record("biclique.route.duration", now - self._read_ended)
        return self._following.sending(commit, self._read_ended, now, self._wall) if self._telemetry.tracing else commit

    def _sent(self, commit: Commit, outcome: Outcome, began: int, ended: int) -> None:
        self._telemetry.record(
            "biclique.transaction.duration", (ended - began) / SECOND_NS, {OUTCOME: outcome.name.lower()}
        )
        failure = "" if outcome is Outcome.COMMITTED else outcome.value
        if self._telemetry.tracing:
            self._following.sent(commit, began, ended, self._wall, failure)
        rows = sum(len(record.times) for _, record in commit.sends if isinstance(record, Results))
        if rows and not failure:
            self._telemetry.count("biclique.results", rows)
        for phase, spent in self._spent.items():
            self._record(f"biclique.{phase.value}.duration", spent)
        self._spent.clear()
        self._read_ended = ended  # a second transaction of the same step begins here

    def _record(self, name: str, spent_ns: int) -> None:
        self._telemetry.record(name, spent_ns / SECOND_NS)

    # --- a joiner's phases -------------------------------------------------------------------------------------------

    def _mark(self, phase: Phase) -> None:
        now = self._clocks.steady()
        self._close_phase(now)
        self._open_phase = phase, now

    def _close_phase(self, now: int) -> None:
        if self._open_phase is None:
            return
        phase, began = self._open_phase
        self._open_phase = None
        self._spent[phase] = self._spent.get(phase, 0) + now - began
        if self._telemetry.tracing:
            self._following.phase(phase, began, now, self._wall)

    def _fetched(self, began: int, ended: int) -> None:
        """In the middle of a phase, which goes on behind it."""
        phase = Phase.EMIT if self._open_phase is None else self._open_phase[0]
        self._close_phase(began)
        self._open_phase = Phase.FETCH, began
        self._close_phase(ended)
        self._open_phase = phase, ended

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def _published(self, answer: Publication | BlobsLost, ended: int) -> None:
        since = self._ended if self._seal_since is None else self._seal_since
        failure = "blobs were lost" if isinstance(answer, BlobsLost) else answer.value
        if answer is Publication.PUBLISHED:
            failure = ""
            self._record("biclique.checkpoint.duration", ended - since)
            self._checkpoint_bytes = self._sealed_bytes
        self._end_checkpoint(since, ended, failure)

    def _end_checkpoint(self, since: int, ended: int, failure: str) -> None:
        self._offset = self._clocks.wall() - ended
        span = self._telemetry.begin("checkpoint", self._wall(since), rare=True)
        if span is not None:
            span.end(self._wall(ended), {"biclique.bytes": self._sealed_bytes}, failure)
        self._seal_since, self._sealed_bytes = None, 0

    # --- the start ---------------------------------------------------------------------------------------------------

    def _restored_part(self, effect: Effect, began: int, ended: int) -> None:
        if self._restoring and self._restore_span is not None:
            self._restore_span.child(PARTS[type(effect)], self._wall(began), self._wall(ended))

    def _consulted(self, orders: Orders, now: int) -> None:
        """Between two turns of the loop: the logic stands still, and has all that the last one brought."""
        self._open_phase = None  # of a step that is over
        if self._seal_since is not None:  # its store took a blob no more
            self._end_checkpoint(self._seal_since, now, Publication.UNAVAILABLE.value)
        if self._restoring:
            self._restoring = False
            self._record("biclique.restore.duration", now - self._started)
            if self._restore_span is not None:
                self._restore_span.end(self._wall(now))
            logic = self._watch.joiner or self._watch.merger
            self._replaying, self._started = logic is not None, now
            if logic is not None:
                above = "" if self._restore_span is None else self._restore_span.context
                self._replay_span = self._telemetry.begin("replay", self._wall(now), above, rare=True)
        if self._replaying:
            logic = self._watch.joiner or self._watch.merger
            assert logic is not None
            if not logic.replaying:
                self._replaying = False
                self._record("biclique.replay.duration", now - self._started)
                if self._replay_span is not None:
                    self._replay_span.end(self._wall(now))

    # --- shown as it stands ------------------------------------------------------------------------------------------

    def _points(self) -> Iterator[Point]:
        """Called from an exporter's thread: only what is frozen, or a single number."""
        standing = self.standing
        facts, now, wall = standing.facts, self._clocks.steady(), self._clocks.wall()
        yield from facts.points
        if facts.epoch is not None:
            yield Point("biclique.frontier.age", max(0.0, wall / SECOND_NS - facts.epoch / 1000))
        if facts.watermark is not None:
            yield Point("biclique.watermark.delay", wall / SECOND_NS - facts.watermark / 1_000_000)
        yield Point("biclique.log.lag", standing.lag)
        yield Point("biclique.load", standing.load.share(now))
        yield Point("biclique.busy.time", standing.load.busy_s(now))
        yield Point("biclique.restarts", self._attempt - 1)
        if self._tier != "dispatcher":
            yield Point("biclique.checkpoint.age", standing.checkpoint_age_s(now))
            yield Point("biclique.checkpoint.size", self._checkpoint_bytes)
        yield Point("process.cpu.time", time.process_time())
        try:
            yield Point("process.memory.usage", int(STATM.read_text().split()[1]) * PAGE_BYTES)
        except OSError:
            return  # not on this kind of machine


PARTS = {Fence: "fence", ReadProgress: "progress", LoadManifests: "manifests", GetBlob: "blob"}
