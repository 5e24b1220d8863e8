"""One look at one query: observe, plan, apply.

The first plan is made of caches, and is nearly always empty. One that would write is made again of what the API says
now, so a cache that is behind never acts: it only says that there may be something to do. What the API refuses of pods
is part of the next plan's status. Whatever else goes wrong ends the look; the queue brings the query back."""

from __future__ import annotations

import base64
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from itertools import chain

from biclique_operator.caches import Caches, QueryKey
from biclique_operator.cluster import Cluster, Conflict, NotLeading, Refused, Unreachable
from biclique_operator.desired.driver_pod import STARTS_S
from biclique_operator.desired.names import QUERY_UID
from biclique_operator.desired.pods import AUTHENTICATION_KEY
from biclique_operator.desired.secret import authentication
from biclique_operator.observed import (
    DriverPod,
    DriverSays,
    ExecutorPod,
    Observed,
    Raw,
    observed_of,
    seconds_of,
    timestamp_of,
)
from biclique_operator.policies import reasons
from biclique_operator.policies.conditions import amiss_in
from biclique_operator.policies.events import Event
from biclique_operator.policies.lacking import called, lacking, removing
from biclique_operator.policies.refusals import Refusals
from biclique_operator.policies.status import records_of
from biclique_operator.policies.troubles import NO_ANSWER
from biclique_operator.reconcile import Plan, Removal, plan
from biclique_operator.settings import Installation
from biclique_operator.telemetry import Telemetry
from biclique_operator.trials import Trials

LOG = logging.getLogger(__name__)
# Decide what is done; of the other kinds a repeated write does no harm, and their own version of it comes back with it.
DECISIVE = ("Pod", "JoinSubgroup", "ConfigMap")
BEGINS_S = 4.0  # so long a pod may take to begin before events are asked why it does not
WARNINGS_S, WARNINGS_KEPT_S = 3.0, 600.0  # how old they may be, and how long they are kept
# What is told of a pod that begins. Other events that are no warnings come between two of them, again and again.
COMES_ON = {"Scheduled", "Pulling", "Pulled", "Created", "Started"}
LIVENESS, STARTUP = "Liveness probe failed", "Startup probe failed"
# So long before an end its probe may have been told of the last time: the kubelet tells of a pod some 25 times at once,
# and then once in five minutes.
PROBED_S = 360.0
SECRET_BYTES = 32
# Of a deletion: so long an API that takes no notes is asked again, and how often.
UNNOTED_S, UNNOTED_LOOK_S = 25.0, 3.0


class Noted(Enum):
    """What is to be swept later."""

    DONE = "done"
    NOT_YET = "not yet"
    LOST = "lost"


class Controller:
    """`told`: what drivers answered last, by pod. `note_leftovers`: what is to be swept later; it must be kept before a
    query may go."""

    def __init__(
        self,
        cluster: Cluster,
        caches: Caches,
        installation: Installation,
        telemetry: Telemetry,
        told: Callable[[], Mapping[str, DriverSays]],
        note_leftovers: Callable[[Observed, str], None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cluster, self._caches, self._installation = cluster, caches, installation
        self._telemetry, self._told, self._note_leftovers, self._now = telemetry, told, note_leftovers, now
        self._refusals: dict[QueryKey, Refusals] = {}
        self._acted_on: dict[QueryKey, tuple[str, int]] = {}
        self._noted: dict[QueryKey, str] = {}  # deleted queries, by uid, whose leftovers are noted
        self._unnoted: dict[QueryKey, float] = {}  # and those whose leftovers could not be, since when
        self._silent: dict[QueryKey, frozenset[str]] = {}  # what was not answered the last time
        self._warnings: dict[str, tuple[float, Mapping[str, tuple[str, str]]]] = {}
        self._trials: Trials[QueryKey] = Trials(cluster, now)

    def look(self, key: QueryKey) -> float | None:
        """When to look again, where nothing else says so."""
        cached = self._caches.query(key)
        if cached is None:
            self._refusals.pop(key, None)
            self._acted_on.pop(key, None)
            self._noted.pop(key, None)
            self._unnoted.pop(key, None)
            self._silent.pop(key, None)
            self._trials.forget(key)
            return None
        began, outcome = time.perf_counter(), "failed"
        try:
            again_s, outcome = self._look(key, cached)
            return again_s
        except (Conflict, NotLeading):
            outcome = "conflict"  # somebody else was quicker: nothing is wrong
            raise
        finally:
            self._telemetry.metrics.reconciles(time.perf_counter() - began, outcome)

    def _look(self, key: QueryKey, cached: Raw) -> tuple[float | None, str]:
        about = cached["metadata"]
        seen = about["uid"], int(about.get("generation") or 0)
        planned = self._plan_and_try(key, self._observed(cached, self._caches.owned(key, about["uid"])))
        if not planned.writes:
            self._acted_on[key] = seen
            return planned.look_again_s, "unchanged"
        first = self._acted_on.get(key) != seen and not self._was_acted_on(cached)
        with self._telemetry.reconciling(key.namespace, key.name, *seen, first) as span:
            outcome = "failed"
            try:
                again_s, outcome = self._act(key)
                self._acted_on[key] = seen
                return again_s, outcome
            finally:
                span.set_attribute("biclique.outcome", outcome)

    def _was_acted_on(self, joinquery: Raw) -> bool:
        """By an operator before this one."""
        status = joinquery.get("status") or {}
        return bool(status.get("observedGeneration") == joinquery["metadata"].get("generation"))

    def _plan(self, key: QueryKey, observed: Observed) -> Plan:
        refused, tried = self._refusals.get(key, Refusals()), self._trials.refused(key)
        since = [*refused.since.values(), *self._trials.since(key).values()]
        # What is new is looked at as often as if it were alone.
        observed = replace(observed, refused_since=max(since, default=None), unanswered=self._trials.unanswered(key))
        planned = plan(observed, self._installation, self._now(), {**refused.of, **tried})
        if refused.of and not planned.apply and not planned.create and not planned.remove:
            del self._refusals[key]  # nothing is to be done any more, so nothing of it is missing
            return self._plan(key, observed)
        return planned

    def _plan_and_try(self, key: QueryKey, observed: Observed) -> Plan:
        """What the API would say to executors that are missing is part of the plan that says so."""
        planned = self._plan(key, observed)
        news = self._trials.ask(key, planned.trials, amiss_in(observed.status))
        return self._plan(key, observed) if news else planned

    # --- acting ------------------------------------------------------------------------------------------------------

    def _act(self, key: QueryKey) -> tuple[float | None, str]:
        fresh = self._cluster.get("JoinQuery", key.namespace, key.name)
        if fresh is None:
            stale = self._caches.query(key)
            if stale is not None:
                self._caches.drop(stale)
            return None, "gone"
        self._caches.put(fresh)
        observed = self._observe(key, fresh)
        planned = self._plan_and_try(key, observed)
        if not planned.writes:
            return planned.look_again_s, "unchanged"
        namespace = key.namespace
        noted = None if planned.leftovers is None else self._note(key, observed, planned)
        stays = noted is Noted.NOT_YET and planned.finalizers is not None
        if stays:
            planned = replace(planned, finalizers=None)
        without = None
        if planned.needs_secret:
            numbered = self._with_its_secret(observed)
            without = self._make_secret(authentication(numbered.query))
            if without is None and numbered is not observed:
                observed = numbered
                planned = self._plan(key, observed)
        # Without what they would have to mount there is no other template for executors of those that run.
        apply = [
            desired
            for desired in planned.apply
            if without is None or not desired["metadata"]["name"].startswith(observed.query.spark(""))
        ]
        refused = self._apply(key, apply)
        if without is not None:
            refused[called("Secret", observed.query.authentication)] = without.code, without.message
        if (why := lacking(observed, refused)) is None:
            refused |= self._create(planned.create)
        else:
            refused |= dict.fromkeys((pod["metadata"]["name"] for pod in planned.create), why)
        # What may not be removed is so until it is tried again: else it would be new each time, and never asked rarely.
        stood = self._refusals.get(key, Refusals()).of
        kept = {removing(one.name) for one in planned.remove} & stood.keys()
        planned = self._with_refusals(key, observed, planned, refused | {what: stood[what] for what in kept})
        stay, silent = self._remove(namespace, planned.remove)
        for pod, deed in planned.deeds:
            if removing(pod) not in stay and pod not in silent:
                self._announce(fresh, deed)
        if planned.finalizers is None:
            planned = self._with_refusals(key, observed, planned, refused | stay)
        for name, status in planned.subgroups:
            subgroup = observed.object("JoinSubgroup", name)
            assert subgroup is not None, "its status was planned"
            self._caches.put(self._cluster.write_status(subgroup, status))
        if planned.status is not None:
            stood, fresh = fresh, self._cluster.write_status(fresh, planned.status)
            self._caches.put(fresh)
            self._tell_transition(stood, planned.status)
        if planned.finalizers is not None:
            # Whatever may not be removed here: what a query owned, Kubernetes takes away behind it.
            self._cluster.write_finalizers(fresh, planned.finalizers)
        for event in planned.events:
            self._announce(fresh, event)
        if silent and planned.finalizers is None:
            raise next(iter(silent.values()))  # once all else is done and said
        made = {called(one["kind"], one["metadata"]["name"]) for one in apply}
        made |= {pod["metadata"]["name"] for pod in planned.create}
        told = planned.status is not None or planned.subgroups or planned.finalizers is not None
        removed = len(planned.remove) > len(stay) + len(silent)
        changed = noted is Noted.DONE or told or removed or made - refused.keys()
        return UNNOTED_LOOK_S if stays else planned.look_again_s, "changed" if changed else "refused"

    def _with_refusals(
        self, key: QueryKey, observed: Observed, planned: Plan, refused: Mapping[str, tuple[int, str]]
    ) -> Plan:
        """What is still to be done, and said, where the API took something, or did not, that it did before."""
        before = self._refusals.get(key, Refusals())
        if (refusals := before.followed_by(refused, observed.generation, self._now())) == before:
            return planned
        self._refusals[key] = refusals
        again = self._plan(key, observed)
        return replace(
            planned,
            remove=again.remove,
            status=again.status,
            subgroups=again.subgroups,
            deeds=again.deeds,
            events=again.events,
            look_again_s=again.look_again_s,
        )

    def _remove(
        self, namespace: str, removals: Iterable[Removal]
    ) -> tuple[dict[str, tuple[int, str]], dict[str, Unreachable]]:
        """Those that were refused, and those that were not answered: neither keeps the others, or what is said."""
        refused: dict[str, tuple[int, str]] = {}
        silent: dict[str, Unreachable] = {}
        for removal in removals:
            try:
                self._cluster.remove(removal.kind, namespace, removal.name, removal.uid)
            except Refused as refusal:
                refused[removing(removal.name)] = refusal.code, refusal.message
            except Unreachable as no_answer:
                silent[removal.name] = no_answer
        return refused, silent

    def _note(self, key: QueryKey, observed: Observed, planned: Plan) -> Noted:
        """Each look tries again until it is. A query goes even where nothing can be noted, as in a
        namespace that is being deleted with the operator in it, or where a webhook that is down says yes to nothing: a
        query that cannot go is worse than what it leaves."""
        assert planned.leftovers is not None, "there is something to note"
        try:
            self._note_leftovers(observed, planned.leftovers)
            self._noted[key] = observed.query.uid
            return Noted.DONE
        except Conflict:
            raise
        except (Refused, Unreachable) as trouble:
            if planned.finalizers is None:
                return Noted.NOT_YET  # nor does it go
            first = self._unnoted.setdefault(key, self._now())
            if isinstance(trouble, Unreachable) and self._now() - first < UNNOTED_S:
                return Noted.NOT_YET
            prefix = observed.query.id
            told = {"event": "leftovers.lost", "query": observed.query.name, "prefix": prefix}
            said = "topics %s.* and keys biclique:{%s}* remain: they could not be noted (%s)"
            LOG.warning(said, prefix, prefix, trouble, extra=told)
            return Noted.LOST

    def _observe(self, key: QueryKey, joinquery: Raw) -> Observed:
        """What decides is asked for anew; the rest is as it was last heard of."""
        uid = joinquery["metadata"]["uid"]
        owned = [obj for obj in self._caches.owned(key, uid) if obj["kind"] not in DECISIVE]
        for kind in DECISIVE:
            listed = self._cluster.list(kind, key.namespace, {QUERY_UID: uid})
            for obj in listed:
                self._caches.put(obj)
            owned += listed
        return self._observed(joinquery, owned)

    def _apply(self, key: QueryKey, objects: Iterable[Raw]) -> dict[str, tuple[int, str]]:
        """Those that were refused. So is what was not answered twice, as where a webhook is down. An answer that is
        missing once is asked for again, and nobody is told."""
        refused: dict[str, tuple[int, str]] = {}
        silent: dict[str, Unreachable] = {}  # once all others are made
        for desired in objects:
            what = called(desired["kind"], desired["metadata"]["name"])
            try:
                self._caches.put(self._cluster.apply(desired))
            except Conflict:
                raise
            except Refused as refusal:
                refused[what] = refusal.code, refusal.message
            except Unreachable as no_answer:
                silent[what] = no_answer
        before, self._silent[key] = self._silent.get(key, frozenset()), frozenset(silent)
        for what, silence in silent.items():
            if what not in before:
                raise silence
            refused[what] = NO_ANSWER, str(silence)
        return refused

    def _create(self, pods: tuple[Raw, ...]) -> dict[str, tuple[int, str]]:
        """Those that were refused. One that is there already was made by somebody who was quicker, or by an operator
        that did not come to say so: the next look sees it."""
        refused: dict[str, tuple[int, str]] = {}
        for pod in pods:
            name = pod["metadata"]["name"]
            try:
                self._caches.put(self._cluster.create(pod))
            except Conflict:
                raise
            except Refused as refusal:
                refused[name] = refusal.code, refusal.message
            except Unreachable as silence:  # of this one, as where a webhook takes too long: the others are still made
                refused[name] = NO_ANSWER, str(silence)
        return refused

    def _with_its_secret(self, observed: Observed) -> Observed:
        """Where the one that was mounted is not there any more, its successor's name is the next. One that somebody has
        made under that name, and did not come to have mounted, is as good as any."""
        query = observed.query
        try:
            if not observed.has_secret or self._cluster.get("Secret", query.namespace, query.authentication):
                return observed
        except Refused:
            return observed  # whoever makes it is told the same, and says so
        return replace(observed, query=replace(query, secrets=query.secrets + 1))

    def _make_secret(self, desired: Raw) -> Refused | None:
        """Its value is drawn here, and written nowhere else. Returns why it cannot be made, as where others manage the
        operator's rights."""
        about = desired["metadata"]
        try:
            if self._cluster.get("Secret", about["namespace"], about["name"]) is None:
                value = base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()
                self._cluster.create({**desired, "data": {AUTHENTICATION_KEY: value}})
        except Conflict:
            return None  # another has made it, and it is as good
        except Refused as refusal:
            return refusal
        return None

    # --- why a pod does not begin ------------------------------------------------------------------------------------

    def _observed(self, joinquery: Raw, owned: Iterable[Raw]) -> Observed:
        """With what Kubernetes says of pods that should have begun by now: a Secret that is missing is told of nowhere
        but in events."""
        observed = self._with_kills(observed_of(joinquery, owned, self._told()))
        query = observed.query
        observed = replace(observed, noted=self._noted.get(QueryKey(query.namespace, query.name)) == query.uid)
        slow = [
            pod.name
            for pod in chain[DriverPod | ExecutorPod](observed.pods, observed.executors)
            if pod.phase == "Pending" and self._now() - pod.created > BEGINS_S
        ]
        if not slow:
            return observed
        warnings = self._warnings_in(observed.query.namespace)
        return replace(observed, events={name: warnings[name] for name in slow if name in warnings})

    def _warnings_in(self, namespace: str) -> Mapping[str, tuple[str, str]]:
        """By pod, unless it has come further since: a warning that has passed is none. Asked for once for all queries
        of a namespace whose pods wait for the same thing."""
        now = self._now()
        for other, (asked, _) in list(self._warnings.items()):  # workers share them
            if now - asked > WARNINGS_KEPT_S:
                self._warnings.pop(other, None)
        at, known = self._warnings.get(namespace, (0.0, {}))
        if now - at < WARNINGS_S:
            return known
        try:
            found = self._cluster.list("Event", namespace, fields="involvedObject.kind=Pod")
        except (Refused, Unreachable):
            # Of many events the list may take too long, and events may be nothing that the operator may read: what is
            # told of pods is what was known.
            self._warnings[namespace] = self._now(), known
            return known
        telling = [one for one in found if one.get("type") == "Warning" or one.get("reason") in COMES_ON]
        newest = {event["involvedObject"]["name"]: event for event in sorted(telling, key=_seen)}
        told = {
            pod: (str(event.get("reason") or ""), str(event.get("message") or ""))
            for pod, event in newest.items()
            if event.get("type") == "Warning"
        }
        self._warnings[namespace] = self._now(), told
        return told

    def _with_kills(self, observed: Observed) -> Observed:
        """A driver that a probe has ended was told to end as anybody tells it, and its pod knows no more than it does:
        events alone say who it was. They are asked once, when an end is judged."""
        if observed.paused or observed.deleting_since is not None:
            return observed  # nothing is
        judged = {name: record.judged for name, record in records_of(observed.status).items()}
        pods = tuple(
            replace(pod, ended=replace(pod.ended, killed=self._kill_of(observed.query.namespace, pod, pod.ended.at)))
            if pod.ended is not None and pod.deleting_until is None and judged.get(pod.driver, 0) < pod.attempt
            else pod
            for pod in observed.pods
        )
        return replace(observed, pods=pods)

    def _kill_of(self, namespace: str, pod: DriverPod, ended: float) -> str:
        """What its probe found, where the kubelet has ended it for that; empty: nobody is known to have. Of a pod that
        is not begun again the kubelet says that it stops it, and not why. At a start every startup probe fails."""
        fields = f"involvedObject.kind=Pod,involvedObject.name={pod.name}"
        try:
            found = self._cluster.list("Event", namespace, fields=fields)
        except (Refused, Unreachable):
            return ""  # the end is judged by what its pod says
        if not any(event.get("reason") == "Killing" for event in found):
            return ""
        probes = (LIVENESS, STARTUP) if ended - pod.created > 0.9 * STARTS_S else LIVENESS
        probed = [event for event in sorted(found, key=_seen) if str(event.get("message") or "").startswith(probes)]
        if not probed or (seconds_of(probed[-1].get("lastTimestamp")) or 0.0) < ended - PROBED_S:
            return ""
        return str(probed[-1]["message"])

    # --- announcing --------------------------------------------------------------------------------------------------

    def _announce(self, joinquery: Raw, event: Event) -> None:
        about = joinquery["metadata"]
        now = timestamp_of(self._now())
        told: Raw = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{about['name'][:50]}-", "namespace": about["namespace"]},
            "involvedObject": {
                "apiVersion": joinquery["apiVersion"],
                "kind": "JoinQuery",
                "name": about["name"],
                "namespace": about["namespace"],
                "uid": about["uid"],
            },
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "message": event.message[:1000],
            "source": {"component": "biclique-operator"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        extra = {"event": "query.decided", "query": about["name"], "reason": event.reason}
        LOG.info("%s/%s: %s", about["namespace"], about["name"], event.message, extra=extra)
        try:
            self._cluster.create(told)
        except (Refused, Unreachable) as trouble:
            # It was decided and done; that nobody is told of it here changes neither.
            LOG.warning("an event could not be written: %s", trouble, extra={"event": "event.unwritten"})

    def _tell_transition(self, joinquery: Raw, status: Raw) -> None:
        before, since = _state(joinquery.get("status") or {})
        after, _ = _state(status)
        if before != after:
            began = since or seconds_of(joinquery["metadata"]["creationTimestamp"]) or self._now()
            self._telemetry.metrics.transition(before, after, max(0.0, self._now() - began))


def _state(status: Raw) -> tuple[str, float | None]:
    """As Ready says it: one word for where a query is."""
    for one in status.get("conditions") or ():
        if one.get("type") == reasons.READY:
            return str(one.get("reason")), seconds_of(one.get("lastTransitionTime"))
    return "New", None


def _seen(event: Raw) -> tuple[str, int]:
    """To the second, as they are written; of two within one, which was written last."""
    about, series = event["metadata"], event.get("series") or {}
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    version = str(about.get("resourceVersion") or "")
    return str(at or about.get("creationTimestamp") or "")[:19], int(version) if version.isdigit() else 0
