"""The control port of a tier's units: their driver, asked over HTTP.

Units run on executors that have no account of the Kubernetes API, and need none: the driver that started them asks it
for all of them. Every request is one call of `Control`, as JSON, with a token that the driver has made up and told its
units (hosts/units/spec.py). The other end is hosts/units/server.py, which hands a request to `answer`.

A unit's loop never waits for a driver that is slow or away: which version is the newest and whether to stop is asked
every second in a thread, with what the unit shows of itself, and the loop reads what was answered last. A unit
that begins must have an attempt, and waits for it.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol

from biclique.ports.control import Condition, Control, OutOfTurn, Pause
from biclique.ports.control_json import decode_condition, decode_pause, encode_condition, encode_pause
from biclique.ports.looking import Looking
from biclique.ports.refusals import Refused, Unreachable
from biclique.ports.reports import ReadReport, Report
from biclique.ports.table_json import decode_table, encode_table
from biclique.routing.table import RoutingTable

LOG = logging.getLogger(__name__)
PATH = "/control/"
LOOK_S = 1.0
CALL_S = 3.0  # for the connection, and for each part of an answer
ANSWER_BYTES_MAX = 1 << 24
OUT_OF_TURN, AWAY, REFUSED = 409, 503, 403  # what an answer's status says besides 200


class ControlRelay:
    def __init__(self, host: str, port: int, token: str) -> None:
        self._host, self._port, self._token = host, port, token
        self._tables: dict[int, RoutingTable] = {}
        self._newest, self._stopping, self._looked = -1, False, False
        self._lock = threading.Lock()
        self._untold: dict[str, Condition | None] = {}
        self._shown: dict[str, ReadReport] = {}
        self._looking = Looking("relay", self._look, LOOK_S)

    def close(self) -> None:
        self._looking.end()

    def table(self, version: int | None) -> RoutingTable | None:
        self._begin()
        wanted = self._newest if version is None else version
        if wanted >= 0 and wanted not in self._tables:
            try:
                self._fetch(wanted)
            except Unreachable:
                return None  # it cannot be seen yet
        return self._tables.get(wanted)

    def publish(self, table: RoutingTable) -> None:
        self._ask("publish", encode_table(table))

    def note(self, text: str) -> None:
        self._ask("note", text)

    def noted(self) -> str | None:
        noted: str | None = self._ask("noted")
        return noted

    def next_attempt(self, name: str) -> int:
        return int(self._ask("next_attempt", name))

    def attempts(self, name: str) -> int:
        return int(self._ask("attempts", name))

    def pause(self, source: str, pause: Pause) -> None:
        self._ask("pause", source, encode_pause(pause))

    def paused(self) -> Mapping[str, Pause]:
        return {source: decode_pause(text) for source, text in self._ask("paused").items()}

    def resume(self, source: str) -> None:
        self._ask("resume", source)

    def stopping(self) -> bool:
        self._begin()
        return self._stopping

    def tell(self, name: str, condition: Condition | None) -> None:
        """Tried at once, and with every look until it is told."""
        with self._lock:
            self._untold[name] = condition
        try:
            self._tell()
        except Unreachable as trouble:
            LOG.info("how %s is will be told later: %s", name, trouble, extra={"event": "condition.untold"})

    def conditions(self) -> Mapping[str, Condition]:
        return {name: decode_condition(text) for name, text in self._ask("conditions").items()}

    def show(self, name: str, read: ReadReport) -> bool:
        self._shown[name] = read
        return True

    # --- looks -------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The first look is waited for."""
        if not self._looked:
            self._looked = True
            with suppress(Unreachable):  # the thread goes on looking
                self._look()
            self._looking.begin()

    def _look(self) -> None:
        reports = {name: read().to_json() for name, read in self._shown.items()}
        seen = self._ask("look", reports)
        self._newest, self._stopping = int(seen["newest"]), bool(seen["stopping"])
        if self._newest >= 0 and self._newest not in self._tables:
            self._fetch(self._newest)
        self._tell()  # last: it may have to wait, and nothing else for it

    def _fetch(self, version: int) -> None:
        text = self._ask("table", version)
        if text is not None:
            self._tables[version] = decode_table(text)

    def _tell(self) -> None:
        with self._lock:
            untold = dict(self._untold)
        for name, condition in untold.items():
            self._ask("tell", name, None if condition is None else encode_condition(condition))
            with self._lock:
                if name in self._untold and self._untold[name] == condition:
                    del self._untold[name]

    # --- one call ----------------------------------------------------------------------------------------------------

    def _ask(self, call: str, *arguments: Any) -> Any:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=CALL_S)
        try:
            body = json.dumps(arguments).encode()
            connection.request("POST", f"{PATH}{call}", body, {"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            said = answer.read(ANSWER_BYTES_MAX).decode()
        except (OSError, http.client.HTTPException) as trouble:
            where = f"the tier's driver at {self._host}:{self._port}"
            raise Unreachable(f"{where} does not answer ({type(trouble).__name__})") from None
        finally:
            connection.close()
        match answer.status:
            case 200:
                return json.loads(said)
            case status if status == OUT_OF_TURN:
                raise OutOfTurn(said)
            case status if status == REFUSED:
                raise Refused(said)
            case status:
                raise Unreachable(said or f"the tier's driver answers {status}")


class Hearing(Protocol):
    """What a driver makes of what its units say on the way to the control port."""

    def reported(self, name: str, report: Report) -> None: ...

    def tell(self, name: str, condition: Condition | None) -> None: ...

    def stopping(self) -> bool:
        """Whether its units are to stop: a driver may be asked by a signal, too."""


Answer = tuple[int, Any]


def answer(control: Control, hearing: Hearing, call: str, arguments: list[Any]) -> Answer:
    """The driver's end of `ControlRelay`: the status and what is said. Raises KeyError, TypeError, ValueError or
    AttributeError for what is no call of ours."""
    try:
        return 200, CALLS[call](control, hearing, *arguments)
    except OutOfTurn as error:
        return OUT_OF_TURN, str(error)
    except Unreachable as error:
        return AWAY, str(error)
    except Refused as error:
        return REFUSED, str(error)


def _looked(control: Control, hearing: Hearing, reports: dict[str, Any]) -> dict[str, Any]:
    for name, values in reports.items():
        hearing.reported(name, Report.from_json(values))
    newest = control.table(None)
    return {"newest": -1 if newest is None else newest.version, "stopping": hearing.stopping()}


def _table(control: Control, version: int) -> str | None:
    found = control.table(version)
    return None if found is None else encode_table(found)


def _tell(control: Control, hearing: Hearing, name: str, condition: str | None) -> None:
    told = None if condition is None else decode_condition(condition)
    hearing.tell(name, told)
    control.tell(name, told)


CALLS: Mapping[str, Callable[..., Any]] = {
    "look": _looked,
    "table": lambda control, _, version: _table(control, version),
    "publish": lambda control, _, table: control.publish(decode_table(table)),
    "note": lambda control, _, text: control.note(text),
    "noted": lambda control, _: control.noted(),
    "next_attempt": lambda control, _, name: control.next_attempt(name),
    "attempts": lambda control, _, name: control.attempts(name),
    "pause": lambda control, _, source, pause: control.pause(source, decode_pause(pause)),
    "paused": lambda control, _: {source: encode_pause(pause) for source, pause in control.paused().items()},
    "resume": lambda control, _, source: control.resume(source),
    "tell": _tell,
    "conditions": lambda control, _: {name: encode_condition(each) for name, each in control.conditions().items()},
}
