"""The operator as a process: kopf's loop in the main thread; threads that look at queries, list everything now and
then, ask drivers, give signs of life, and keep the Lease. All of them end when they are asked to, and the Lease is
released last."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import kopf
from kubernetes import client

from biclique_operator import canary, handlers
from biclique_operator.caches import Caches, QueryKey, version_of
from biclique_operator.canary import Canary
from biclique_operator.cluster import Cluster, Conflict, NotLeading, Refused, Unreachable
from biclique_operator.controller import Controller
from biclique_operator.deafness import Deafness
from biclique_operator.desired.names import FIELD_MANAGER, MANAGED_BY
from biclique_operator.health import Health
from biclique_operator.lease import Lease
from biclique_operator.leftovers import Leftovers
from biclique_operator.observed import seconds_of
from biclique_operator.policies.reasons import DELETING, IS_SUSPENDED, READY, RUNNING, SUSPENDED
from biclique_operator.polling import FIRST_S, Polling
from biclique_operator.queue import WorkQueue
from biclique_operator.settings import Settings
from biclique_operator.sweeping import Sweeper
from biclique_operator.telemetry import Telemetry

LOG = logging.getLogger(__name__)
WORKER = "worker-"  # and a number: a thread that looks at queries
WORKERS = 4  # calls wait for the API most of the time
LOOKS_END_S = 12.0  # together: of a pod's 20 s, the Lease needs some, too
RESYNC_S = 120.0  # what a watch has missed is found after so long
RESYNC_MAX_AGE_S = 3 * RESYNC_S
QUEUE_STANDS_S = 180.0  # one worker of four comes to its next key sooner, however slowly the API answers


class Service:
    def __init__(self, settings: Settings, api: client.ApiClient, telemetry: Telemetry) -> None:
        self._settings, self._api, self._telemetry = settings, api, telemetry
        self.caches = Caches()
        self.queue: WorkQueue[QueryKey] = WorkQueue(time.monotonic, random.random)
        self._deafness = Deafness(time.monotonic)
        self.sign_of_life = Canary(time.monotonic)
        self._stopping, self._idle = threading.Event(), threading.Event()
        self._warm = threading.Event()
        self._listed_at = time.monotonic()  # or begun, where nothing was listed yet
        # The Lease is written by who does not lead yet, and a sign of life by who stands by.
        self._plain = Cluster(api, telemetry)
        self._lease = Lease(self._plain, settings.namespace, settings.lease, settings.identity, self._on_lease)
        self._leading, self._leading_since = threading.Event(), time.monotonic()
        self._cluster = Cluster(api, telemetry, lambda: self._lease.is_held)
        self._polling = Polling(self.caches, self.queue.add)
        self._leftovers = Leftovers(self._cluster, settings.namespace, settings.leftovers)
        self._sweeper = Sweeper(self._cluster, self._leftovers)
        self._controller = Controller(
            self._cluster,
            self.caches,
            settings.installation,
            telemetry,
            self._polling.told,
            self._leftovers.note,
        )
        self._threads = list(self._made_threads())
        self._show()

    # --- life --------------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event | None = None) -> None:
        """Until a signal, or `stop`. In the main thread, whose signals kopf takes."""
        health = Health(self._settings.health_port, self.ailing, self.unready)
        health.begin()
        for thread in self._threads:
            thread.start()
        watched = self._settings.watched
        try:
            kopf.run(
                registry=handlers.registry_of(self.caches, self.queue, self._deafness, self.sign_of_life, self._api),
                settings=handlers.settings(),
                standalone=True,
                clusterwide=watched is None,
                namespaces=[] if watched is None else [watched],
                stop_flag=stop,
            )
        finally:
            self.close()
            health.close()

    def close(self) -> None:
        self._stopping.set()
        self.queue.close()
        by = time.monotonic() + LOOKS_END_S
        # Looks are brought to their end. Who else writes asks first whether he may; a sweep of a Kafka that is gone
        # would keep the next one from leading.
        for thread in self._threads:
            if thread.name.startswith(WORKER):
                thread.join(max(0.0, by - time.monotonic()))
        self._idle.set()
        for thread in self._threads:
            thread.join(15.0)
        self._telemetry.close()

    def _made_threads(self) -> Iterator[threading.Thread]:
        loops: list[tuple[str, Callable[[], None]]] = [(f"{WORKER}{n}", self._work) for n in range(WORKERS)]
        loops.append(("resync", self._resync))
        loops.append(("canary", self._give_signs_of_life))
        loops.append(("sweeping", lambda: self._sweeper.run(self._stopping, self._leading.is_set)))
        loops.append(("polling", lambda: self._polling.run(self._stopping, self._leading)))
        loops.append(("lease", self._stand_for_the_lease))
        for name, loop in loops:
            yield threading.Thread(target=loop, name=name, daemon=True)

    # --- leading -----------------------------------------------------------------------------------------------------

    def _stand_for_the_lease(self) -> None:
        """Who has seen nothing yet could do nothing: as one whose rights have not come. Another goes on."""
        while not self._warm.wait(0.1):
            if self._idle.is_set():
                return
        self._lease.run(self._idle)

    def _on_lease(self, leads: bool) -> None:
        if not leads:
            self._leading.clear()
            return
        self._leading_since = time.monotonic()
        self._leading.set()
        for key in self.caches.queries():
            self.queue.add(key)

    # --- working -----------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while not self._stopping.is_set():
            if not self._leading.wait(0.5) or not self._warm.is_set():
                self._warm.wait(0.5)
                continue
            self._polling.wait_for_first(self._leading_since + FIRST_S - time.monotonic())
            taken = self.queue.take(1.0)
            if taken is not None:
                self._telemetry.metrics.waited(taken[1])
                self._look(taken[0])

    def _look(self, key: QueryKey) -> None:
        if key == handlers.CANARY:
            self.sign_of_life.turned()
            self.queue.done(key)
            return
        try:
            again_s = self._controller.look(key)
        except NotLeading:
            self.queue.done(key)  # who leads now looks at it
        except Conflict:
            self.queue.done(key, 0.2)  # what was seen was not what there is: nothing is wrong
        except (Refused, Unreachable) as trouble:
            wait_s = self.queue.failed(key)
            extra = {"event": "query.trouble", "query": key.name}
            LOG.warning("%s: %s; again in %.1f s", key, trouble, wait_s, extra=extra)
        except Exception:  # of one query, which must not end the others'
            wait_s = self.queue.failed(key)
            extra = {"event": "query.failed", "query": key.name}
            LOG.exception("%s could not be looked at; again in %.1f s", key, wait_s, extra=extra)
        else:
            self.queue.done(key, again_s)

    def _resync(self) -> None:
        while not self._stopping.is_set():
            try:
                self.list_everything()
            except (Refused, Unreachable) as trouble:
                LOG.warning("not everything could be listed: %s", trouble, extra={"event": "resync.trouble"})
                self._stopping.wait(2.0)
                continue
            self._stopping.wait(RESYNC_S)

    def list_everything(self) -> None:
        """And bring every query's turn about: what no watch has told is found here."""
        for _, _, _, kind in handlers.WATCHED:
            labels = {} if kind == "JoinQuery" else {MANAGED_BY: FIELD_MANAGER}
            known = self.caches.known(kind)
            listed = self._cluster.list(kind, self._settings.watched, labels)
            changed = self.caches.replace_all(kind, listed, known)
            self._deafness.listed(kind, bool(changed))
        self._listed_at = time.monotonic()
        self._warm.set()
        for key in self.caches.queries():
            self.queue.add(key)

    def _give_signs_of_life(self) -> None:
        """Once something was listed, so that watches are about to begin."""
        namespace = self._settings.watched or self._settings.namespace
        said, number = "", 0
        while not self._stopping.wait(canary.EVERY_S):
            if not self._warm.is_set():
                continue
            number += 1
            try:
                written = self._plain.apply(canary.as_object(namespace, self._settings.identity, number))
            except (Refused, Unreachable) as trouble:
                self.sign_of_life.unsent()
                if str(trouble) != said:
                    LOG.warning("no sign of life could be written: %s", trouble, extra={"event": "canary.trouble"})
                said = str(trouble)
            else:
                self.sign_of_life.sent(version_of(written))

    # --- how it is ---------------------------------------------------------------------------------------------------

    def ailing(self) -> str | None:
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        if dead and not self._stopping.is_set():
            return f"a thread has ended: {', '.join(dead)}"
        if self._warm.is_set() and time.monotonic() - self._listed_at > RESYNC_MAX_AGE_S:
            return "nothing could be listed for too long"
        if (kind := self._deafness.deaf()) is not None:
            return f"what happens to a {kind} is not heard of any more"
        if self.sign_of_life.is_missing():
            return "what it writes as a sign of life is not heard of: watches tell nothing any more"
        if self._leading.is_set() and self._queue_stands_s() > QUEUE_STANDS_S:
            return "queries wait for their turn, and nothing takes one"
        return None

    def _queue_stands_s(self) -> float:
        """Of who stands by the queue stands rightly."""
        return min(self.queue.stands_s(), time.monotonic() - self._leading_since)

    def unready(self) -> str | None:
        return None if self._warm.is_set() else "not everything has been listed yet"

    def _show(self) -> None:
        show = self._telemetry.show
        show("biclique.operator.queue.depth", "{key}", "Keys that are due", self._depth)
        show(
            "biclique.operator.leading",
            "1",
            "Whether this process leads",
            lambda: [(float(self._leading.is_set()), {})],
        )
        show("biclique.operator.queries", "{query}", "Queries by whether they are ready", self._queries)
        show("biclique.operator.unready.age", "s", "Since the query was ready that is not for longest", self._unready)
        show("biclique.operator.resync.age", "s", "Since everything was listed", self._age)
        show("biclique.operator.canary.age", "s", "Since a sign of life came back", self._canary_ages)

    def _depth(self) -> list[tuple[float, dict[str, str]]]:
        return [(float(len(self.queue)) if self._leading.is_set() else 0.0, {})]

    def _age(self) -> list[tuple[float, dict[str, str]]]:
        return [(time.monotonic() - self._listed_at, {})]

    def _canary_ages(self) -> list[tuple[float, dict[str, str]]]:
        watched_s, turned_s = self.sign_of_life.ages_s()
        found = [(watched_s, {"path": "watch"})]
        if self._leading.is_set():
            found.append((min(turned_s, time.monotonic() - self._leading_since), {"path": "queue"}))
        return found

    def _queries(self) -> list[tuple[float, dict[str, str]]]:
        counts = Counter(reason for reason, _ in self._ready())
        return [(float(count), {"reason": reason}) for reason, count in counts.items()]

    def _unready(self) -> list[tuple[float, dict[str, str]]]:
        """Whatever its reasons were meanwhile."""
        since = [at for reason, at in self._ready() if reason not in (RUNNING, IS_SUSPENDED, DELETING)]
        return [(max(0.0, time.time() - min(since)) if since else 0.0, {})]

    def _ready(self) -> Iterator[tuple[str, float]]:
        """Of every query: the reason of that condition, and since when it has been so, or not so, and was not suspended
        or resumed."""
        for key in self.caches.queries():
            query = self.caches.query(key)
            if query is None:
                continue  # gone since
            said = (query.get("status") or {}).get("conditions") or ()
            reason = next((str(one.get("reason")) for one in said if one.get("type") == READY), "New")
            turned = [one.get("lastTransitionTime") for one in said if one.get("type") in (READY, SUSPENDED)]
            times = [seconds_of(at) or 0.0 for at in (*turned, query["metadata"].get("creationTimestamp"))]
            yield reason, max(times)
