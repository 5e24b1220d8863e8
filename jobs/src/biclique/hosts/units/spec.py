"""What a unit's process is told: the query, which unit of it, and where the world is. Plain JSON, as it travels from a
driver to a task on another machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Surroundings:
    """`kafka`: librdkafka's settings, without a secret. `kafka_secret`, `redis_secret`: names of Secrets in the folder
    `secrets`; whoever connects looks them up. `volumes`: the folder in which claims are mounted. `prefix`: of topics,
    keys and transactional ids, of no other query. `checkpoint_s`: between two checkpoints of a unit. `control`,
    `token`: as `open_control` takes them; of a unit it may be its driver's (`relay:`)."""

    kafka: dict[str, Any]
    redis: str
    control: str
    prefix: str
    checkpoint_s: float = 10.0
    secrets: str = ""
    kafka_secret: str | None = None
    redis_secret: str | None = None
    volumes: str = ""
    token: str = ""


@dataclass(frozen=True)
class UnitSpec:
    """`tier`: dispatcher, joiner or merger; `name`: as in its producer (`tiers/messages.py`). `halvings`: of what its
    transactions hold (limits.py)."""

    manifest: str
    tier: str
    name: str
    surroundings: Surroundings
    halvings: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> UnitSpec:
        values = json.loads(text)
        return UnitSpec(**{**values, "surroundings": Surroundings(**values["surroundings"])})
