"""Whether the API would take executors that are missing. Spark makes them, and writes a refusal down in its own log; so
the API is asked for it, by dry runs.

A refusal is said once it has stood for a while: under a quota that just fits, an executor waits for one that is on its
way out whenever pods take turns. Where all that are missing are refused, they are asked about more and more rarely, as
long as the last of these refusals stands; that it has passed is told by Spark, which tries again every second, and by a
watch of the pod that it makes. One that is missing anew is asked about at once.

An operator that has just begun knows no answers. Where a status says by the same reason what is the first to be
answered, the operator before it has seen that stand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from biclique_operator.cluster import Cluster, Conflict, Refused, Unreachable
from biclique_operator.observed import Raw
from biclique_operator.policies.conditions import Amiss
from biclique_operator.policies.troubles import refusal_of
from biclique_operator.reconcile import rarer

TRIALS_S = 4.0  # between two questions
STANDS_S = 8.0  # so long a refusal must have stood; with looks every five or ten seconds it is said after ten
NO_DRY_RUNS = 400  # of a webhook that would do something beside judging: it says nothing of the pod
Refusal = tuple[int, str]  # code, message
KeyT = TypeVar("KeyT", bound=Hashable)


@dataclass(frozen=True)
class _Answers:
    """`any_yet`: the API has answered, if only for some that have come by now. `asked`: those of the last question that
    are still missing. `since`: when those of them that are refused were refused first. `said`: those of these that have
    stood."""

    at: float = float("-inf")
    any_yet: bool = False
    asked: frozenset[str] = frozenset()
    since: Mapping[str, float] = field(default_factory=dict)
    said: Mapping[str, Refusal] = field(default_factory=dict)


class Trials(Generic[KeyT]):
    """Of each query, by its key."""

    def __init__(self, cluster: Cluster, now: Callable[[], float]) -> None:
        self._cluster, self._now = cluster, now
        self._answers: dict[KeyT, _Answers] = {}

    def refused(self, key: KeyT) -> Mapping[str, Refusal]:
        """Of those that were missing when `ask` was called last."""
        return self._answers.get(key, _Answers()).said

    def since(self, key: KeyT) -> Mapping[str, float]:
        """When those that would be refused were refused first, also those of which nothing is said yet."""
        return self._answers.get(key, _Answers()).since

    def forget(self, key: KeyT) -> None:
        self._answers.pop(key, None)

    def unanswered(self, key: KeyT) -> bool:
        """What there was to say before is not known to have passed."""
        return not self._answers.get(key, _Answers()).any_yet

    def ask(self, key: KeyT, trials: tuple[tuple[str, Raw], ...], amiss: Amiss | None) -> bool:
        """Whether something else is to be said than before. `trials`: by what they are called in a sentence. `amiss`:
        what the status says."""
        told = self.refused(key)
        names = {name for name, _ in trials}
        if not names:
            self.forget(key)
            return bool(told)
        before = _of_those(self._answers.get(key, _Answers()), names)
        now = self._now()
        if now - before.at < self._pause_s(before, names, now):
            self._answers[key] = before
            return before.said != told
        try:
            refused = {name: refusal for name, pod in trials if (refusal := self._would_refuse(pod)) is not None}
        except Unreachable:  # as where a webhook is down: it is for people to know, and nothing else waits for it
            self._answers[key] = replace(before, at=now, asked=frozenset(names))
            return before.said != told
        first = {name: before.since.get(name, now) for name in refused}
        if not before.any_yet:
            first = {name: _first_refused(refusal, amiss, now) for name, refusal in refused.items()}
        said = {name: refusal for name, refusal in refused.items() if now - first[name] >= STANDS_S}
        self._answers[key] = _Answers(now, any_yet=True, asked=frozenset(names), since=first, said=said)
        return said != told or not before.any_yet

    @staticmethod
    def _pause_s(before: _Answers, names: AbstractSet[str], now: float) -> float:
        """After the last question."""
        if not names <= before.asked:
            return 0.0
        # One that would be taken, and is missing all the same, may be refused at any time.
        return rarer(TRIALS_S, now - max(before.since.values())) if names <= before.since.keys() else TRIALS_S

    def _would_refuse(self, pod: Raw) -> Refusal | None:
        try:
            self._cluster.would_create(pod)
        except Conflict:
            return None  # it is counted by somebody else at this moment: the next one tells
        except Refused as refusal:
            return None if refusal.code == NO_DRY_RUNS else (refusal.code, refusal.message)
        return None


def _first_refused(refusal: Refusal, amiss: Amiss | None, now: float) -> float:
    """As far as is known where nothing was answered before."""
    if amiss is None or refusal_of("", *refusal)[0] != amiss.reason:
        return now
    return min(amiss.since, now - STANDS_S)


def _of_those(answers: _Answers, names: AbstractSet[str]) -> _Answers:
    """Of one that came, nothing is said any more."""
    return replace(
        answers,
        asked=answers.asked & names,
        since={name: at for name, at in answers.since.items() if name in names},
        said={name: refusal for name, refusal in answers.said.items() if name in names},
    )
