"""What drivers tell of themselves: each that runs is asked every five seconds, or of very many more rarely. They are
asked at once, and none for longer than two.

An answer that does not come once or twice changes nothing: what was told before counts for a while. Whether a driver is
well is the kubelet's to find out."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

import urllib3

from biclique.query.pod import STATUS_PORT
from biclique_operator.caches import Caches, QueryKey
from biclique_operator.desired.names import DRIVER, ROLE
from biclique_operator.observed import DriverSays, driver_pod_of, labels_of, says_of

LOG = logging.getLogger(__name__)
EVERY_S = 5.0
A_SECOND_MAX = 40
KEPT_S = 25.0  # that long answers may be missed, or two of them
FIRST_S = 2.0  # so long who begins to lead waits for what drivers say, before he says anything of them
AT_ONCE = 16
PATIENCE = urllib3.Timeout(connect=1.0, read=2.0)
ANSWER_BYTES_MAX = 1 << 20


class Polling:
    """`changed`: called with a query of which something else is told than before, figures aside."""

    def __init__(
        self, caches: Caches, changed: Callable[[QueryKey], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        self._caches, self._changed = caches, changed
        self._http = urllib3.PoolManager(num_pools=AT_ONCE, maxsize=1, retries=False, timeout=PATIENCE)
        self._now, self._every_s = now, EVERY_S
        self._heard: Mapping[str, tuple[DriverSays, float]] = {}
        self._asked = threading.Event()

    def told(self) -> Mapping[str, DriverSays]:
        """By pod, of all that answered lately."""
        now = self._now()
        kept_s = max(KEPT_S, 2.5 * self._every_s)
        return {name: says for name, (says, at) in self._heard.items() if now - at <= kept_s}

    def wait_for_first(self, seconds: float) -> None:
        """Of this term of leading: what nobody was asked for would look like what nobody says."""
        self._asked.wait(max(0.0, seconds))

    def run(self, stopping: threading.Event, leading: threading.Event) -> None:
        with ThreadPoolExecutor(AT_ONCE, "polling") as pool:
            while not stopping.is_set():
                if leading.wait(0.5):
                    self.ask_all(pool)
                    stopping.wait(self._every_s)
                else:
                    self._asked.clear()

    def ask_all(self, pool: ThreadPoolExecutor) -> None:
        whose: dict[str, tuple[QueryKey, str]] = {}
        for key in self._caches.queries():
            joinquery = self._caches.query(key)
            if joinquery is None:
                continue
            for obj in self._caches.owned(key, joinquery["metadata"]["uid"]):
                if obj["kind"] == "Pod" and labels_of(obj).get(ROLE) == DRIVER:
                    pod = driver_pod_of(obj)
                    if pod.phase == "Running" and pod.ip:
                        whose[pod.name] = key, pod.ip
        self._every_s = max(EVERY_S, len(whose) / A_SECOND_MAX)
        before = self.told()
        answers = pool.map(lambda address: self._ask(address[1]), whose.values())
        heard = {name: answer for name, answer in self._heard.items() if name in whose}
        for name, says in zip(whose, answers, strict=True):
            if says is not None:
                heard[name] = says, self._now()
        self._heard = heard
        self._asked.set()
        told = self.told()
        for name, (key, _) in whose.items():
            if _without_figures(before.get(name)) != _without_figures(told.get(name)):
                self._changed(key)

    def _ask(self, ip: str) -> DriverSays | None:
        host = f"[{ip}]" if ":" in ip else ip
        try:
            answer = self._http.request("GET", f"http://{host}:{STATUS_PORT}/status", preload_content=False)
            try:
                data = answer.read(ANSWER_BYTES_MAX)
            finally:
                answer.release_conn()
            return says_of(json.loads(data)) if answer.status == 200 else None
        except (urllib3.exceptions.HTTPError, ValueError, AttributeError, TypeError):
            return None  # it starts, ends, or is another version's: the kubelet knows more


def _without_figures(says: DriverSays | None) -> object:
    return None if says is None else (says.why, says.units, says.paused)
