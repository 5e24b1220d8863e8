"""The control port as one ConfigMap of the query, in the Kubernetes API.

    data       table.<version>   began   attempt.<name>   paused.<source>   condition.<name>
    annotation biclique.dev/stop: "true": the query is to stop

The operator makes it, empty, and sets the annotation; the drivers of the query's tiers write single keys. What must not
be written twice is written against the version that was read (`resourceVersion`): of two that are at it at once one is
refused, looks again, and decides anew.

Reading is cheap and never waits: after a first look at the whole, a thread watches it, and everybody reads the copy.
With the API server away the copy is what holds: data flows on, and only who must write (a unit that begins, a source
that pauses) waits. A copy may be some milliseconds old; nothing rests on it being younger, since Kafka fences whoever
has a successor.
"""

from __future__ import annotations

import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from biclique.ports.control import Condition, OutOfTurn, Pause
from biclique.ports.control_json import decode_condition, decode_pause, encode_condition, encode_pause
from biclique.ports.looking import Looking
from biclique.ports.refusals import Refused, Unreachable
from biclique.ports.reports import ReadReport
from biclique.ports.table_json import decode_table, encode_table
from biclique.query.errors import QueryError
from biclique.routing.table import RoutingTable

T = TypeVar("T")
LOG = logging.getLogger(__name__)
STOP = "biclique.dev/stop"
TABLE, ATTEMPT, PAUSED, CONDITION, BEGAN = "table.", "attempt.", "paused.", "condition.", "began"
CONNECT_S, ANSWER_S = 3.0, 5.0
WATCH_S = 15  # then the server ends a watch, and the next begins with the whole: what was missed is caught up with
AGAIN_S = 0.1
TURNS, TURN_S = 40, 0.05  # of who writes while others write, too
MERGE = "application/merge-patch+json"


def connected() -> client.CoreV1Api:
    """As the pod's service account, else as KUBECONFIG says. Raises QueryError."""
    found = client.Configuration()
    try:
        config.load_incluster_config(found)
    except ConfigException:
        try:
            # Named, since the client reads this setting when it is imported, and never again.
            config.load_kube_config(os.environ.get("KUBECONFIG"), client_configuration=found)
        except (ConfigException, OSError) as wrong:
            remedy = "run in a pod with a service account, or set KUBECONFIG to a file of kubectl's"
            raise QueryError("BICLIQUE_CONTROL", f"no Kubernetes API is known here ({wrong})", remedy) from None
    found.retries = False  # whoever asks has a patience of his own
    return client.CoreV1Api(client.ApiClient(found))


@dataclass(frozen=True)
class _Seen:
    """The ConfigMap as it stood. `version`: as the API wants it told again, and grows."""

    version: str
    data: Mapping[str, str]
    stopping: bool

    @staticmethod
    def of(found: client.V1ConfigMap) -> _Seen:
        about = found.metadata
        assert about is not None and about.resource_version is not None, "the API server gives both"
        return _Seen(about.resource_version, found.data or {}, (about.annotations or {}).get(STOP) == "true")


class ControlKubernetes:
    """Of a driver; units ask theirs (control_relay.py). `api`: this process's."""

    def __init__(self, api: client.CoreV1Api, namespace: str, name: str) -> None:
        self._api, self._namespace, self._name = api, namespace, name
        self._lock = threading.Lock()
        self._seen: _Seen | None = None
        self._tables: dict[int, RoutingTable] = {}
        self._untold: dict[str, Condition | None] = {}
        self._telling = threading.Lock()
        self._watch: watch.Watch | None = None
        self._looking = Looking("control", self._follow, AGAIN_S)

    def close(self) -> None:
        self._looking.end()
        following = self._watch
        if following is not None:
            following.stop()

    # --- tables ------------------------------------------------------------------------------------------------------

    def table(self, version: int | None) -> RoutingTable | None:
        data = self._known().data
        if version is None and _newest(data) < 0:
            data = self._read().data  # that there is none is believed of no copy, which may be older than the query
        wanted = _newest(data) if version is None else version
        if wanted not in self._tables and (text := data.get(f"{TABLE}{wanted}")) is not None:
            self._tables[wanted] = decode_table(text)
        return self._tables.get(wanted)

    def publish(self, table: RoutingTable) -> None:
        text = encode_table(table)

        def change(data: Mapping[str, str]) -> dict[str, str | None] | None:
            newest = _newest(data)
            if table.version == newest and decode_table(data[f"{TABLE}{newest}"]) == table:
                return None
            if table.version != newest + 1:
                raise OutOfTurn(f"version {table.version} does not follow version {newest}")
            return {f"{TABLE}{table.version}": text}

        self._change(change)

    def note(self, text: str) -> None:
        self._change(lambda data: None if _newest(data) >= 0 and BEGAN in data else {BEGAN: text})

    def noted(self) -> str | None:
        return self._known().data.get(BEGAN)

    # --- attempts ----------------------------------------------------------------------------------------------------

    def next_attempt(self, name: str) -> int:
        key, given = ATTEMPT + quoted(name), 0

        def change(data: Mapping[str, str]) -> dict[str, str | None]:
            nonlocal given
            given = int(data.get(key, "0")) + 1
            return {key: str(given)}

        self._change(change)
        return given

    def attempts(self, name: str) -> int:
        return int(self._known().data.get(ATTEMPT + quoted(name), "0"))

    # --- sources that pause ------------------------------------------------------------------------------------------

    def pause(self, source: str, pause: Pause) -> None:
        key = PAUSED + quoted(source)
        self._change(lambda data: None if key in data else {key: encode_pause(pause)})

    def paused(self) -> Mapping[str, Pause]:
        return _named(self._known().data, PAUSED, decode_pause)

    def resume(self, source: str) -> None:
        key = PAUSED + quoted(source)
        self._change(lambda data: {key: None} if key in data else None)

    def stopping(self) -> bool:
        """Nobody has said so as long as nobody was heard."""
        try:
            return self._known().stopping
        except Unreachable:
            return False

    # --- how units are -----------------------------------------------------------------------------------------------

    def tell(self, name: str, condition: Condition | None) -> None:
        """Written when it can be: what is told is for people, and no unit waits for it."""
        with self._lock:
            self._untold[name] = condition
        try:
            self._tell()
        except (Unreachable, Refused) as trouble:
            LOG.info("how %s is will be told later: %s", name, trouble, extra={"event": "condition.untold"})

    def conditions(self) -> Mapping[str, Condition]:
        return _named(self._known().data, CONDITION, decode_condition)

    def show(self, name: str, read: ReadReport) -> bool:
        return False  # drivers show what their units do themselves

    def _tell(self) -> None:
        # One at a time: of two that tell at once, a unit and the watching thread, the one that has waited longer for
        # its answer would write what is no longer so over what is, and nobody would tell it again.
        with self._telling:
            with self._lock:
                untold = dict(self._untold)
            if not untold:
                return
            known = self._read().data  # the copy may lack what was written without an answer
            texts = {name: None if told is None else encode_condition(told) for name, told in untold.items()}
            wanted = {CONDITION + quoted(name): text for name, text in texts.items()}
            changed = {key: text for key, text in wanted.items() if known.get(key) != text}
            if changed:
                self._patch(changed, None)
            with self._lock:
                self._untold = {name: told for name, told in self._untold.items() if untold.get(name, told) != told}

    # --- the ConfigMap -----------------------------------------------------------------------------------------------

    def _known(self) -> _Seen:
        """The copy. Raises Unreachable or Refused before there is one."""
        self._looking.begin()
        return self._seen or self._read()

    def _read(self) -> _Seen:
        return self._take(
            self._asked(
                lambda: self._api.read_namespaced_config_map(
                    self._name, self._namespace, _request_timeout=(CONNECT_S, ANSWER_S)
                )
            )
        )

    def _change(self, change: Callable[[Mapping[str, str]], Mapping[str, str | None] | None]) -> None:
        """`change`: from what is there to the keys that become others; None: nothing is to be done."""
        for turn in range(TURNS):
            seen = self._read()
            keys = change(seen.data)
            if keys is None:
                return
            try:
                self._patch(keys, seen.version)
                return
            except _WrittenMeanwhile:
                time.sleep(random.uniform(0, TURN_S * (turn + 1)))
        raise Unreachable(f"{self._place} is written again and again by others")

    def _patch(self, keys: Mapping[str, str | None], version: str | None) -> None:
        body: dict[str, Any] = {"data": dict(keys)}
        if version is not None:
            body["metadata"] = {"resourceVersion": version}
        self._take(
            self._asked(
                lambda: self._api.patch_namespaced_config_map(
                    self._name,
                    self._namespace,
                    body,
                    _content_type=MERGE,
                    _request_timeout=(CONNECT_S, ANSWER_S),
                )
            )
        )

    def _take(self, found: client.V1ConfigMap) -> _Seen:
        """What was found is known, unless more is: answers and what the watch brings may cross."""
        seen = _Seen.of(found)
        with self._lock:
            if self._seen is None or int(seen.version) >= int(self._seen.version):
                self._seen = seen
        return seen

    def _follow(self) -> None:
        """Until the server ends the watch."""
        self._tell()
        following = self._watch = watch.Watch()
        asked: dict[str, Any] = {
            "field_selector": f"metadata.name={self._name}",
            "timeout_seconds": WATCH_S,
            "_request_timeout": (CONNECT_S, WATCH_S + ANSWER_S),
        }

        def watched() -> None:
            for event in following.stream(self._api.list_namespaced_config_map, self._namespace, **asked):
                if event["type"] in ("ADDED", "MODIFIED"):
                    self._take(event["object"])
                if self._looking.ended:
                    return

        self._asked(watched)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ApiException as error:
            raise self._told(error) from None
        except AttributeError as bug:
            # The client's own: of a connection that breaks within TLS there is no answer, and it decodes it.
            if not isinstance(bug.__context__, ApiException):
                raise
            raise self._told(bug.__context__) from None
        except HTTPError as trouble:
            raise Unreachable(f"the Kubernetes API does not answer ({type(trouble).__name__})") from None

    def _told(self, error: ApiException) -> Exception:
        match error.status:
            case 409:
                return _WrittenMeanwhile()
            case 404:
                return Unreachable(f"{self._place} is not there; the operator makes it")
            case 403:
                return Refused(
                    f"{self._place}: the service account may not do this: give it get, list, watch and patch"
                )
            case 413 | 422:
                return Refused(f"{self._place} takes no more: the API refuses what is written ({error.reason})")
            case None | 0:
                return Unreachable(f"the Kubernetes API does not answer ({' '.join(str(error.reason).split())})")
            case status:
                return Unreachable(f"the Kubernetes API answers {status} ({error.reason})")

    @property
    def _place(self) -> str:
        return f"ConfigMap {self._namespace}/{self._name}"


class _WrittenMeanwhile(Unreachable):
    """By somebody else, since it was read."""

    def __init__(self) -> None:
        super().__init__("somebody else has written meanwhile")


def _newest(data: Mapping[str, str]) -> int:
    return max((int(key.removeprefix(TABLE)) for key in data if key.startswith(TABLE)), default=-1)


def _named(data: Mapping[str, str], prefix: str, decode: Callable[[str], T]) -> dict[str, T]:
    return {unquoted(key.removeprefix(prefix)): decode(data[key]) for key in sorted(data) if key.startswith(prefix)}


def quoted(name: str) -> str:
    """As part of a ConfigMap's key, which may have letters, digits, dots, dashes and underscores."""
    return re.sub(rb"[^A-Za-z0-9.-]", lambda found: b"_%02X" % found[0][0], name.encode()).decode()


def unquoted(text: str) -> str:
    return re.sub(rb"_([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), text.encode()).decode()
