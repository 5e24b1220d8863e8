"""A share of the runs sends every record over the wire and back, and every progress through JSON: as Kafka will."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from biclique.plan.model import Plan
from biclique.ports.progress_json import decode_progress, encode_progress
from biclique.ports.wire import Wire
from biclique.tiers.messages import LateTuples, Record, Results, SetAside
from biclique.tiers.progress import Progress

SHARE = 0.04  # encoding costs several times what a record costs otherwise: a hundred of 3,000 runs are enough
LEAVING = (Results, LateTuples, SetAside)  # written for people: nobody of ours reads them again


@dataclass(frozen=True)
class Carrying:
    record: Callable[[Record], Record] = lambda record: record
    progress: Callable[[Progress], Progress] = lambda progress: progress


AS_THEY_ARE = Carrying()


def carrying_of(seed: int, plan: Plan) -> Carrying:
    """By a stream of its own: what is carried how decides nothing, so no other choice of the seed moves."""
    if random.Random(f"{seed}/wire").random() >= SHARE:
        return AS_THEY_ARE
    wire = Wire(plan)

    def over(record: Record) -> Record:
        return record if isinstance(record, LEAVING) else wire.decode(wire.encode(record))

    def back(progress: Progress) -> Progress:
        return decode_progress(json.loads(json.dumps(encode_progress(progress))))

    return Carrying(over, back)
