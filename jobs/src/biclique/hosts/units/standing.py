"""What a unit shows as it stands, whoever looks: telemetry's exporters, and the driver for its status.

It follows the unit's effects: how long it rests, how far its input goes on behind what it has read, when its last
checkpoint was. Once a second its logic is looked at, in the loop's own thread; whoever looks, from another thread,
reads what was frozen then.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from biclique.hosts.units.facts import Facts, facts_of
from biclique.hosts.units.load import WINDOW_S, Load
from biclique.plan.model import Plan
from biclique.ports.reports import Figures, Report
from biclique.tiers.effects import (
    Commit,
    Consult,
    Effect,
    Fence,
    Fetched,
    GetBlob,
    LoadManifests,
    Publication,
    PublishManifest,
    PutBlob,
    Read,
    ReadProgress,
    Rest,
)
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Block, Partials, Record, SourceBlock, Topic

SECOND_NS = 1_000_000_000
KAFKA, STORE = "Kafka", "the checkpoint store"
ANSWERS = {  # whose answer an effect's is, of those that a turn may wait for
    **dict.fromkeys((Fence, ReadProgress, Read, Commit), KAFKA),
    **dict.fromkeys((LoadManifests, GetBlob, PutBlob, PublishManifest), STORE),
}
INPUTS = {"dispatcher": Topic.SHUFFLED, "joiner": Topic.UNIT, "merger": Topic.PARTIALS}


@dataclass(frozen=True)
class Clocks:
    """Nanoseconds: one that does not jump, for spans of time; the machine's, for moments."""

    steady: Callable[[], int] = time.monotonic_ns
    wall: Callable[[], int] = time.time_ns


MACHINE = Clocks()


class Standing:
    """Of one unit, from its start."""

    def __init__(self, plan: Plan, tier: str, watch: Watch, clocks: Clocks = MACHINE) -> None:
        self._plan, self._tier, self._watch, self._clocks = plan, tier, watch, clocks
        self.input = INPUTS[tier]
        now = clocks.steady()
        self.load, self.facts, self.lag = Load(now), Facts(), 0  # offsets of the input that were not read
        self.checkpoint_at, self._look_at = now, now
        self._rows = self._offsets = 0  # read since the start, replays among them
        self._samples = deque([(now, 0, 0)], WINDOW_S + 1)
        self._rows_per_offset = 0.0
        self._turned: int | None = None
        self._awaits = ""

    def following(self, perform: Callable[[Effect], Any]) -> Callable[[Effect], Any]:
        """`perform`, followed."""

        def performed(effect: Effect) -> Any:
            began = self._clocks.steady()
            self.asks(effect)
            answer = perform(effect)
            self.follow(effect, answer, began, self._clocks.steady())
            return answer

        return performed

    def asks(self, effect: Effect) -> None:
        """It is being performed; `follow` comes when it is answered."""
        self._awaits = ANSWERS.get(type(effect), "")

    def follow(self, effect: Effect, answer: Any, began: int, ended: int) -> None:
        self._awaits = ""
        match effect:
            case Rest():
                self.load.rest(ended - began)
            case Read(address, offset, _) if address.topic is self.input:
                self._read(offset, answer)
            case PublishManifest() if answer is Publication.PUBLISHED:
                self.checkpoint_at = ended
            case Consult():
                self._consulted(ended)
            case _:
                pass

    def _read(self, offset: int, fetched: Fetched) -> None:
        self.lag = max(0, fetched.end - fetched.next_offset)
        self._rows += sum(rows_of(record) for _, record in fetched.records)
        self._offsets += max(0, fetched.next_offset - offset)

    def _consulted(self, now: int) -> None:
        """Between two turns of the loop: the logic stands still, and has all that the last one brought."""
        self._turned = now
        if now < self._look_at:
            return
        self._look_at = now + SECOND_NS
        self.load.sample(now)
        self.facts = facts_of(self._plan.query, self._watch)
        self._samples.append((now, self._rows, self._offsets))
        _, rows, offsets = self._samples[0]
        if self._offsets > offsets:
            self._rows_per_offset = (self._rows - rows) / (self._offsets - offsets)

    def report(self) -> Report:
        """From any thread."""
        now, (then, rows, _) = self._clocks.steady(), self._samples[0]
        shown = [(point.name, int(point.value)) for point in self.facts.points]

        def shown_of(name: str) -> int | None:
            return (
                sum(value for each, value in shown if each == name) if any(each == name for each, _ in shown) else None
            )

        waiting = shown_of("biclique.inbox.rows") or 0
        figures = Figures(
            rate_rows_s=round((self._rows - rows) * SECOND_NS / (now - then), 1) if now > then else None,
            lag_rows=round(self.lag * self._rows_per_offset) + waiting,
            state_rows=shown_of("biclique.state.rows"),
            state_bytes=shown_of("biclique.state.size"),
            checkpoint_age_s=None if self._tier == "dispatcher" else round(self.checkpoint_age_s(now), 1),
            load=round(self.load.share(now), 3),
        )
        turned = self._turned
        turned_s = None if turned is None else round((now - turned) / SECOND_NS, 1)
        return Report(self.facts.epoch, turned_s, figures, self._awaits)

    def checkpoint_age_s(self, now: int) -> float:
        return (now - self.checkpoint_at) / SECOND_NS


def rows_of(record: Record) -> int:
    match record:
        case SourceBlock():
            return len(record.offsets)
        case Block():
            return len(record.rows)
        case Partials():
            return len(record.newest)
        case _:
            return 0
