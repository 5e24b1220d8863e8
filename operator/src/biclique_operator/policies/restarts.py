"""When a driver that ended is started again: at once, after a pause that doubles, rarely, as its exit code says.

Each attempt is judged once, and what was judged is in the status: an operator that starts anew goes on counting where
the one before it was. A run that was healthy for long gives the budget back."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum

from biclique.query.pod import OLD_COPY
from biclique_operator.observed import Ended

HEALTHY_S = 600.0  # a run as long as this gives the budget back
BUDGET = 6  # failures in a row, each with its pause; then rarely
PAUSE_S = 1.0  # doubles, until the budget is spent
RARE_S = 300.0
MEND_S = 30.0  # doubles up to RARE_S: most of what a person mends, he mends soon
BRIEF_S = 30.0  # an end as asked, sooner than this, is no different from a failure
JITTER = 0.2
PAUSE_MAX_S = RARE_S * (1 + JITTER) + 2.0  # as it is written, in whole seconds
assert MEND_S * 2**BUDGET >= RARE_S, "pauses grow up to the rare ones, however often it has failed"

STOPPED, WRONG_MANIFEST, MEND_FIRST = 0, 2, 5  # exit codes of a tier


class Verdict(Enum):
    ENDED = "ended"  # as asked, by whomever: a drain, a successor; or for another to be given what is new
    MEND = "mend"  # a person must mend something
    FAILED = "failed"
    SPENT = "spent"  # failed more often than the budget allows


@dataclass(frozen=True, slots=True)
class Record:
    """What a status remembers of a driver. `judged`: the last attempt whose end was counted. `failures`: in a row.
    `ready_since`: of the attempt that runs; 0: it never was. `why`: of the last end, as (reason, sentence)."""

    attempt: int = 0
    judged: int = 0
    failures: int = 0
    retry_at: float = 0.0
    ready_since: float = 0.0
    verdict: Verdict | None = None
    why: str = ""


def judged(record: Record, attempt: int, ended: Ended, taken_away: bool, pod: str, now: float) -> Record:
    """Of an attempt that is over and was not judged yet. `taken_away`: its pod was deleted, by us or by a drain."""
    at = ended.at or now
    healthy_s = max(0.0, at - record.ready_since) if record.ready_since else 0.0
    failures = 0 if healthy_s >= HEALTHY_S else record.failures
    if taken_away or (ended.code == STOPPED and not ended.killed and healthy_s >= BRIEF_S):
        verdict, pause_s = Verdict.ENDED, 0.0
    elif ended.code in (WRONG_MANIFEST, MEND_FIRST):
        failures += 1
        verdict, pause_s = Verdict.MEND, min(MEND_S * 2 ** min(failures - 1, BUDGET), RARE_S)
    else:
        failures += 1
        spent = failures > BUDGET
        verdict = Verdict.SPENT if spent else Verdict.ENDED if ended.code == OLD_COPY else Verdict.FAILED
        pause_s = RARE_S if spent else PAUSE_S * 2 ** (failures - 1)
    return replace(
        record,
        attempt=max(record.attempt, attempt),
        judged=attempt,
        failures=failures,
        # Counted from when it is judged: a clock of a node that is ahead must not put it off.
        retry_at=now + pause_s * _jitter(pod),
        ready_since=0.0,
        verdict=verdict,
        why=sentence_of(ended),
    )


def recovered(record: Record) -> Record:
    """Of one that has run healthily for long, and so need not be asked of its end, which may never be seen."""
    return replace(record, failures=0, verdict=None, why="")


def sentence_of(ended: Ended) -> str:
    """Its own last sentence, where it could write one, and knew why."""
    if ended.killed:
        said = "its main loop stood still, or its node had no time for it; its log tells which"
        return f"the kubelet ended it ({' '.join(ended.killed.split())[:300]}): {said}"
    if ended.message:
        return " ".join(ended.message.split())[:500]
    if ended.reason == "OOMKilled":
        return "it was killed for want of memory (OOMKilled): give its pods more, or its units less"
    said = f" ({ended.reason})" if ended.reason not in ("", "Error", "Completed") else ""
    return f"it ended with exit code {ended.code}{said}"


def _jitter(pod: str) -> float:
    """Spreads queries that fall together, and is the same for whoever asks again."""
    share = int(hashlib.sha256(pod.encode()).hexdigest()[:8], 16) / 0xFFFFFFFF
    return 1 + JITTER * (2 * share - 1)
