"""Who leads: a Lease of Kubernetes', held by one process, renewed while it lives, and released when it ends as it was
asked.

Whoever does not hold it watches as well, so its caches are warm, and looks every two seconds. It takes a lease that was
released at once, and one that was not renewed for as long as it says, by its own clock: clocks of two nodes need not
agree. A holder that could not renew stops writing before anybody may take over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from biclique_operator.cluster import WRITE_S, Cluster, Conflict, Refused, Unreachable

LOG = logging.getLogger(__name__)
DURATION_S = 12  # so long after its last renewal somebody else may take it
RENEW_EVERY_S = 2.5
LOOK_EVERY_S = 2.0
TROUBLE_S = 0.5  # and so soon again where it was not answered
GIVE_UP_S = 7.5  # and so long after it the holder begins no write: less, by more than one may take
assert RENEW_EVERY_S + sum(WRITE_S) + TROUBLE_S < GIVE_UP_S, "one renewal may be lost"
assert GIVE_UP_S + sum(WRITE_S) < DURATION_S, "what was begun while it led has ended before another does"

Raw = dict[str, Any]


class Lease:
    """`name`: of the Lease, of one installation. `on_change`: called with whether this process leads, from the thread
    of `run`."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        on_change: Callable[[bool], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster, self._namespace, self._name, self._identity = cluster, namespace, name, identity
        self._on_change, self._clock = on_change, clock
        self._renewed_at: float | None = None
        self._seen: tuple[str, float] | None = None  # another holder's record, and since when it stands so
        self._leads = False

    @property
    def is_held(self) -> bool:
        """Asked before each write."""
        return self._renewed_at is not None and self._clock() - self._renewed_at < GIVE_UP_S

    def run(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            wait_s = None
            try:
                self._turn()
            except (Unreachable, Refused) as trouble:
                LOG.warning("the lease could not be renewed: %s", trouble, extra={"event": "lease.trouble"})
                wait_s = TROUBLE_S if isinstance(trouble, Unreachable) else None
            self._tell()
            stopping.wait(wait_s or (RENEW_EVERY_S if self._leads else LOOK_EVERY_S))
        self._release()

    def _turn(self) -> None:
        began = self._clock()
        found = self._cluster.get("Lease", self._namespace, self._name, WRITE_S)
        try:
            if found is None:
                self._cluster.create(self._record(None))
            elif self._may_take(found):
                self._cluster.replace(self._record(found))
            else:
                self._renewed_at = None
                return
        except Conflict:
            return  # somebody was quicker; whether we still lead, the next turn says
        self._renewed_at = began

    def _may_take(self, found: Raw) -> bool:
        spec = found.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder in ("", self._identity):
            return True
        record = f"{holder} {spec.get('renewTime')}"
        if self._seen is None or self._seen[0] != record:
            self._seen = record, self._clock()
            return False
        return self._clock() - self._seen[1] > float(spec.get("leaseDurationSeconds") or DURATION_S)

    def _record(self, before: Raw | None) -> Raw:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = dict((before or {}).get("spec") or {})
        if spec.get("holderIdentity") != self._identity:
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + (before is not None)
            spec["acquireTime"] = now
        spec |= {"holderIdentity": self._identity, "leaseDurationSeconds": DURATION_S, "renewTime": now}
        if before is not None:
            return {**before, "spec": spec}
        about = {"name": self._name, "namespace": self._namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": about, "spec": spec}

    def _tell(self) -> None:
        if self.is_held != self._leads:
            self._leads = self.is_held
            said = "this process leads" if self._leads else "this process does not lead any more"
            LOG.info(said, extra={"event": "lease.taken" if self._leads else "lease.lost"})
            self._on_change(self._leads)

    def _release(self) -> None:
        """So that nobody has to wait for it to run out."""
        if not self.is_held:
            return
        self._renewed_at = None  # whoever would still write here is told so before another leads
        try:
            found = self._cluster.get("Lease", self._namespace, self._name)
            if found is not None and found["spec"].get("holderIdentity") == self._identity:
                self._cluster.replace({**found, "spec": {**found["spec"], "holderIdentity": ""}})
        except (Unreachable, Refused) as trouble:
            LOG.warning("the lease was not released: %s", trouble, extra={"event": "lease.trouble"})
        self._tell()
