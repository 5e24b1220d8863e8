"""Logs trimmed further than the query allows, while who reads them is down: a person's mistake, or a retention that
somebody set. Nothing can bring those records back, so the tier must stop and say what is gone and what to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.chaos.flow import Flow
from tests.chaos.stage import WITH_REDIS, Stage

DOWN_S, STOP_LIMIT_S = 3.0, 90.0


@dataclass(frozen=True)
class Stopped:
    """`code` None: it did not stop. `sentence`: the last line it wrote."""

    tier: str
    code: int | None
    sentence: str
    words: tuple[str, ...]

    def wrong(self) -> str | None:
        if self.code is None:
            return f"{self.tier} goes on, though its log was trimmed too far"
        lacking = [word for word in self.words if word not in self.sentence]
        if self.code == 0 or lacking:
            return f"{self.tier} stops with code {self.code} and does not say {lacking}: {self.sentence}"
        return None


TRIMMED = {
    "joiner": ((".0L0", ".0R0"), ("trimmed too far", "restore the topic")),
    "merger": ((".partials",), ("trimmed too far", "restore the topic")),
    "dispatcher": ((".shuffled",), ("trimmed too far", "restore the topic")),
    "shuffler": (("-r", "-s"), ("retention", "keep the topic longer")),
}


# In the order in which they are struck; who was struck is down from then on. Not dispatcher and shuffler in one run:
# behind a dispatcher that has stopped for good the shuffler cannot know what is lost of its sources, and waits; and
# without a shuffler a dispatcher has nothing to lose.
STRUCK = {"pairs": ("joiner", "dispatcher"), "groups": ("merger", "joiner", "shuffler")}


def trim_too_far(stage: Stage, flow: Flow, tiers: Sequence[str], say: Callable[[str], None]) -> list[Stopped]:
    flow.resume()
    time.sleep(DOWN_S)
    found = []
    for tier in tiers:
        topics, words = TRIMMED[tier]
        stage.keeper.hold(tier)
        time.sleep(DOWN_S)
        places = [place for topic in topics for place in stage.topics(topic) if not place.topic.endswith(".progress")]
        if tier in WITH_REDIS:
            stage.redis_client().flushall()
        stage.delete_records(places)
        known = len(stage.keeper.ended)
        stage.keeper.release(tier)
        found.append(_stopped(stage, tier, known, words))
        stage.keeper.hold(tier)
        say(f"{tier}, its log trimmed too far: {found[-1].sentence}")
    flow.pause()
    return found


def _stopped(stage: Stage, tier: str, known: int, words: tuple[str, ...]) -> Stopped:
    deadline = time.monotonic() + STOP_LIMIT_S
    while time.monotonic() < deadline:
        for ended in stage.keeper.ended[known:]:
            if ended.tier == tier:
                return Stopped(tier, ended.code, ended.sentence, words)
        time.sleep(0.2)
    return Stopped(tier, None, "", words)
