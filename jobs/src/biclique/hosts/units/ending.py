"""How one run of a unit ended, as its driver is told it: plain JSON, from a task on another machine.

| over   | asked to stop, or has left: not started again                                                          |
| fenced | a successor runs in its place: not started again, unless no later driver of the tier is known           |
| repeat | a transaction whose outcome is unknown: started again, with smaller transactions                       |
| late   | the same, since Kafka has not brought it to an end in time: as often as it takes                       |
| wait   | Kafka or whatever it needs does not answer: started again, as often as it takes                        |
| mend   | trying again would end in the same way, and nothing is lost: the tier stops, and says what to mend     |

Whatever else breaks a run is a failure, and has a budget (restarts.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from biclique.core.codec import DamagedBlob
from biclique.kernels.groups import SumOverflow
from biclique.ports.refusals import Refused, Undecided, Unreachable
from biclique.ports.wire import UnknownMessage
from biclique.query.errors import QueryError
from biclique.tiers.effects import End
from biclique.tiers.loops import MissingProgress
from biclique.tiers.payload_reading import MissingPayload
from biclique.tiers.reading_on import TrimmedTooFar

FOR_A_PERSON = (
    Refused,
    MissingProgress,
    MissingPayload,
    TrimmedTooFar,
    UnknownMessage,
    DamagedBlob,
    SumOverflow,
    QueryError,
)


class Kind(Enum):
    OVER = "over"
    FENCED = "fenced"
    REPEAT = "repeat"
    LATE = "late"
    WAIT = "wait"
    MEND = "mend"


KINDS = {End.UNKNOWN: Kind.REPEAT, End.FENCED: Kind.FENCED}


@dataclass(frozen=True)
class Ending:
    kind: Kind
    why: str

    def to_json(self) -> str:
        return json.dumps([self.kind.value, self.why])

    @staticmethod
    def from_json(text: str) -> Ending:
        kind, why = json.loads(text)
        return Ending(Kind(kind), why)


def ending_of(run: Callable[[], End]) -> Ending:
    try:
        end = run()
    except Unreachable as trouble:
        return Ending(Kind.WAIT, str(trouble))
    except Undecided as unknown:
        return Ending(Kind.LATE if unknown.may_pass else Kind.REPEAT, str(unknown))
    except FOR_A_PERSON as stop:
        return Ending(Kind.MEND, str(stop))
    return Ending(KINDS.get(end, Kind.OVER), end.value)
