"""Which control port a setting names:

kubernetes:<namespace>/<ConfigMap>     relay:<host>:<port>     or else a folder
"""

from __future__ import annotations

from pathlib import Path

from biclique.ports.control import Control
from biclique.ports.control_folder import ControlFolder
from biclique.ports.control_relay import ControlRelay
from biclique.query.errors import QueryError
from biclique.query.pod import CONTROL_IN_KUBERNETES as KUBERNETES

RELAY = "relay:"


def in_kubernetes(text: str) -> bool:
    return text.startswith(KUBERNETES)


def relay_at(host: str, port: int) -> str:
    return f"{RELAY}{host}:{port}"


def open_control(text: str, token: str = "") -> Control:
    """For this process. `token`: of a relay. Raises QueryError for what names none."""
    if in_kubernetes(text):
        namespace, slash, name = text.removeprefix(KUBERNETES).partition("/")
        if not (namespace and slash and name):
            problem, remedy = f"{text} names no ConfigMap", f"write {KUBERNETES}<namespace>/<ConfigMap>"
            raise QueryError("BICLIQUE_CONTROL", problem, remedy)
        from biclique.ports.control_kubernetes import ControlKubernetes, connected  # for those who have a cluster

        return ControlKubernetes(connected(), namespace, name)
    if text.startswith(RELAY):
        host, _, port = text.removeprefix(RELAY).rpartition(":")
        return ControlRelay(host.strip("[]"), int(port), token)
    return ControlFolder(Path(text))
