"""The control port as a folder: for a query without Kubernetes, on one machine or on a disk that all can see.

    <folder>/tables/<version>.json    <folder>/attempts/<name>    <folder>/conditions/<name>.json
    <folder>/paused/<source>.json     <folder>/began.json         <folder>/stop

A table appears under its name whole or not at all. Attempts are counted under a lock on the file that counts them, and
`began.lock` holds who notes what begins apart from who publishes the first table.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, unquote

from biclique.ports.control import Condition, OutOfTurn, Pause
from biclique.ports.control_json import decode_condition, decode_pause, encode_condition, encode_pause
from biclique.ports.reports import ReadReport
from biclique.ports.table_json import decode_table, encode_table
from biclique.routing.table import RoutingTable

DIGITS_MAX = 20
LOOK_S = 0.2  # how old what a process knows of the folder may be


class ControlFolder:
    def __init__(self, folder: Path) -> None:
        self._tables, self._attempts, self._stop = folder / "tables", folder / "attempts", folder / "stop"
        self._conditions, self._paused = folder / "conditions", folder / "paused"
        self._began = folder / "began.json"
        self._tables.mkdir(parents=True, exist_ok=True)
        for made in (self._attempts, self._conditions, self._paused):
            made.mkdir(exist_ok=True)
        self._known: dict[int, RoutingTable] = {}
        self._newest, self._stopping, self._looked = -1, False, float("-inf")

    def table(self, version: int | None) -> RoutingTable | None:
        self._look()
        wanted = self._newest if version is None else version
        if wanted not in self._known:
            try:
                self._known[wanted] = decode_table(self._file(wanted).read_text())
            except FileNotFoundError:
                return None
        return self._known[wanted]

    def publish(self, table: RoutingTable) -> None:
        with self._beginning():
            self._publish(table)

    def _publish(self, table: RoutingTable) -> None:
        self._look(fresh=True)
        if table.version == self._newest and self.table(table.version) == table:
            return
        if table.version != self._newest + 1:
            raise OutOfTurn(f"version {table.version} does not follow version {self._newest}")
        written = self._tables / f".{os.getpid()}"
        written.write_text(encode_table(table))
        try:
            os.link(written, self._file(table.version))  # fails where another was quicker
        except FileExistsError:
            raise OutOfTurn(f"version {table.version} has been written by somebody else") from None
        finally:
            written.unlink()
        self._look(fresh=True)

    def note(self, text: str) -> None:
        with self._beginning():
            self._look(fresh=True)
            if self._newest >= 0 and self._began.exists():
                return
            written = self._began.with_name(f".{os.getpid()}-began")
            written.write_text(text)
            written.replace(self._began)

    @contextmanager
    def _beginning(self) -> Iterator[None]:
        """Alone among those that say what the query is when it begins, and that begin it."""
        with self._began.with_suffix(".lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def noted(self) -> str | None:
        try:
            return self._began.read_text()
        except FileNotFoundError:
            return None

    def next_attempt(self, name: str) -> int:
        """Written over the last one and never emptied: a number has no fewer digits than the one before, and who is
        killed or finds the disk full between two calls must not begin to count anew."""
        file = os.open(self._attempts / quote(name, safe=""), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            attempt = int(os.pread(file, DIGITS_MAX, 0) or b"0") + 1
            os.pwrite(file, str(attempt).encode(), 0)
            os.fsync(file)
        finally:
            os.close(file)
        return attempt

    def attempts(self, name: str) -> int:
        try:
            return int((self._attempts / quote(name, safe="")).read_text() or "0")
        except FileNotFoundError:
            return 0

    def pause(self, source: str, pause: Pause) -> None:
        written = self._paused / f".{os.getpid()}"
        written.write_text(encode_pause(pause))
        try:
            os.link(written, self._pause_file(source))
        except FileExistsError:
            pass  # it is paused
        finally:
            written.unlink()

    def paused(self) -> dict[str, Pause]:
        return {unquote(path.stem): _pause_in(path) for path in sorted(self._paused.glob("[!.]*.json"))}

    def resume(self, source: str) -> None:
        self._pause_file(source).unlink(missing_ok=True)

    def _pause_file(self, source: str) -> Path:
        return self._paused / f"{quote(source, safe='')}.json"

    def stopping(self) -> bool:
        self._look()
        return self._stopping

    def stop(self) -> None:
        self._stop.touch()

    def start(self) -> None:
        self._stop.unlink(missing_ok=True)

    def tell(self, name: str, condition: Condition | None) -> None:
        place = self._conditions / f"{quote(name, safe='')}.json"
        if condition is None:
            place.unlink(missing_ok=True)
            return
        written = place.with_name(f".{place.name}.{os.getpid()}")
        written.write_text(encode_condition(condition))
        written.rename(place)

    def conditions(self) -> Mapping[str, Condition]:
        found: dict[str, Condition] = {}
        for place in sorted(self._conditions.glob("[!.]*.json")):
            try:
                found[unquote(place.stem)] = decode_condition(place.read_text())
            except FileNotFoundError:
                continue  # told anew meanwhile
        return found

    def show(self, name: str, read: ReadReport) -> bool:
        return False

    def close(self) -> None:
        """Nothing is held."""

    def _look(self, fresh: bool = False) -> None:
        if not fresh and time.monotonic() < self._looked + LOOK_S:
            return
        versions = (int(path.stem) for path in self._tables.glob("*.json"))
        self._newest, self._stopping = max(versions, default=-1), self._stop.exists()
        self._looked = time.monotonic()

    def _file(self, version: int) -> Path:
        return self._tables / f"{version}.json"


def _pause_in(path: Path) -> Pause:
    try:
        return decode_pause(path.read_text())
    except FileNotFoundError:
        return decode_pause("")  # resumed meanwhile
