"""The engine's side of reading: one stream of blocks for each source, in order, bounded, resumable.

A connection has a thread that receives frames and holds a few blocks: behind the next one no more bytes than it may.
When it has its fill the thread stops, the socket fills, and the task waits. So what is held of a source is bounded
whatever its files are, and the engine sets the pace.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from biclique.hosts.file_task import Position, ReadTask
from biclique.hosts.frames import BlockFrame, End, Failure, FileEnd, Frame, LostTask, receive_frame
from biclique.hosts.parsing.needed import needed_of
from biclique.ports.file_source import FileChanged, FileSource, refuse_if_changed
from biclique.ports.run_state import SourceState
from biclique.query.errors import QueryError
from biclique.query.model import Files, Query

BLOCKS_AHEAD = 4
AHEAD_SHARE = 8  # of a unit's memory: blocks of one source that wait behind its next one may take an eighth


class ReadingFailed(Exception):
    """Not the user's fault: a task or its connection was lost."""


class Hub:
    """Where reading tasks connect. `folder`: this process's alone while it lives. `arrived` is set whenever some stream
    has something new. `memory_bytes`: of a unit."""

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        self._ahead_bytes_max = memory_bytes // AHEAD_SHARE
        self._listener = socket.socket(socket.AF_UNIX)
        self._bound = _bind(self._listener, folder)
        self.address = str(self._bound)
        self.arrived = threading.Event()
        self._listener.listen(16)
        self._streams: dict[int, Connection] = {}
        self._numbers = 0
        threading.Thread(target=self._accept, name="reading-hub", daemon=True).start()

    def expect(self) -> tuple[int, Connection]:
        self._numbers += 1
        stream = self._streams[self._numbers] = Connection(self.arrived, self._ahead_bytes_max)
        return self._numbers, stream

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # closed
            number = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
            self._streams.pop(number).start(connection)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for connections
        self._listener.close()
        self._bound.unlink(missing_ok=True)


def _bind(listener: socket.socket, folder: Path) -> Path:
    """A name of this process's own: a task of a killed one must not find the next. Where the folder cannot hold a
    socket (a long path, some network disks), the machine's folder for such things does."""
    for stale in folder.glob(".blocks-*"):
        stale.unlink()
    name = f".blocks-{secrets.token_hex(8)}"
    for place in (folder.resolve(), Path(tempfile.gettempdir())):
        try:
            listener.bind(str(place / name))
        except OSError:
            continue
        return place / name
    raise ReadingFailed(f"no local socket can be made, neither in {folder} nor in {tempfile.gettempdir()}")


class Connection:
    """The frames of one task. Of the blocks that are here, those behind the next one have no more than
    `ahead_bytes_max` together, but for one: it has been received, and its thread waits with it."""

    def __init__(self, arrived: threading.Event, ahead_bytes_max: int) -> None:
        self._arrived, self._ahead_bytes_max = arrived, ahead_bytes_max
        self._frames: deque[tuple[Frame | Exception, int]] = deque()
        self._changed = threading.Condition()
        self._bytes = 0  # of all that is here, also of the frame that waits to get in
        self._socket: socket.socket | None = None
        self._closed = False

    def start(self, connection: socket.socket) -> None:
        self._socket = connection
        threading.Thread(target=self._receive, name="reading", daemon=True).start()

    def fail(self, sentence: str) -> None:
        """The task has ended badly; where its connection told so already, that is what counts."""
        self._put(ReadingFailed(sentence))

    def _receive(self) -> None:
        assert self._socket is not None
        with self._socket:
            while not self._closed:
                try:
                    frame = receive_frame(self._socket)
                except (LostTask, OSError):
                    return  # the task's end is reported by Spark
                self._put(frame)
                if isinstance(frame, End | Failure):
                    return

    def _put(self, item: Frame | Exception) -> None:
        size = item.nbytes if isinstance(item, BlockFrame) else 0
        with self._changed:
            self._bytes += size
            self._changed.wait_for(lambda: self._closed or self._has_room())
            self._frames.append((item, size))
        self._arrived.set()

    def _has_room(self) -> bool:
        return len(self._frames) < BLOCKS_AHEAD and self._ahead() <= self._ahead_bytes_max

    def _ahead(self) -> int:
        return self._bytes - self._frames[0][1] if self._frames else 0

    @property
    def ahead_bytes(self) -> int:
        """Of the blocks behind the next one: without that one nothing can be read."""
        with self._changed:
            return self._ahead()

    def get(self) -> Frame | None:
        with self._changed:
            if not self._frames:
                return None
            item, size = self._frames.popleft()
            self._bytes -= size
            self._changed.notify_all()
        if isinstance(item, Exception):
            raise item
        return item

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # the other side was first


class NoTasks:
    """Of a query that reads no files."""

    def wait(self) -> None: ...

    def submit(self, task: ReadTask, failed: Callable[[str], None]) -> None:
        raise AssertionError("no source is of files")

    def stop(self) -> None: ...


class Tasks(Protocol):
    """Who runs reading tasks: Spark (hosts/spark.py)."""

    def wait(self) -> None:
        """Until it is ready; raises if it cannot be."""

    def submit(self, task: ReadTask, failed: Callable[[str], None]) -> None:
        """Returns at once; `failed` is called from another thread if the task ends badly."""

    def stop(self) -> None: ...


def refuse_other_input(query: Query, source: int, state: SourceState) -> None:
    """Of a source that was read to its end: its files are those, and what they were."""
    declared = query.sources[source]
    if not isinstance(declared.input, Files):
        return  # a topic was read up to where it ended
    files = FileSource(place_of(source), declared.input.path)
    for file in state.files:
        refuse_if_changed(files.located(file))
    for fresh in files.discover(state.files):
        raise FileChanged(
            fresh.name, "the file is new since this run finished", "begin anew with --restart to join it too"
        )


def place_of(source: int) -> str:
    return f"spec.sources[{source}].files.path"


class SourceReader:
    """Blocks of one source, one after the other. `state` is how far they have been *taken*: what a checkpoint holds.

    Files of which nothing was taken are looked for again: one that grew since is no changed input. `follow`: files may
    still be being written, so that a new one is taken when it has been seen twice unchanged; else they are all there.
    """

    def __init__(
        self, query: Query, source: int, hub: Hub, tasks: Tasks, state: SourceState, follow: bool = False
    ) -> None:
        self.number = source
        self._hub, self._tasks = hub, tasks
        declared = query.sources[source]
        assert isinstance(declared.input, Files)
        self._format = declared.input.format
        self._files = FileSource(place_of(source), declared.input.path)
        self.wanted, self.used = needed_of(query, source)
        begun = state.files[: state.ordinal + (state.row > 0)]
        self.state = replace(state, files=tuple(self._files.located(file) for file in begun))
        for file in self.state.files:
            refuse_if_changed(file)
        self._connection: Connection | None = None
        self._find(settled=not follow)

    def start(self) -> None:
        if self._connection is None and self.state.ordinal < len(self.state.files):
            self._begin()

    def look_for_files(self) -> None:
        """New ones, of which nobody seems to be writing still."""
        self._find(settled=False)
        self.start()

    def _find(self, settled: bool) -> None:
        fresh = self._files.discover(self.state.files, settled)
        self.state = replace(self.state, files=(*self.state.files, *fresh))

    def file_name(self, ordinal: int) -> str:
        return self.state.files[ordinal].name

    @property
    def caught_up(self) -> bool:
        """Every known file has been taken to its end."""
        return self._connection is None

    @property
    def ahead_bytes(self) -> int:
        """Of its blocks in memory that wait behind the next one."""
        return 0 if self._connection is None else self._connection.ahead_bytes

    def bytes_known(self) -> tuple[int, int]:
        """Of the files: taken to their end, and in all. For a display."""
        sizes = [file.size for file in self.state.files]
        return sum(sizes[: self.state.ordinal]), sum(sizes)

    def _begin(self) -> None:
        number, self._connection = self._hub.expect()
        task = ReadTask(
            number,
            self._hub.address,
            self._format,
            self.wanted,
            self.state.files[self.state.ordinal :],
            Position(self.state.row, self.state.resume),
        )
        self._tasks.submit(task, self._connection.fail)

    def take(self) -> BlockFrame | None:
        """The next block, if one is here. The state moves beyond it."""
        while self._connection is not None:
            frame = self._connection.get()
            match frame:
                case None:
                    return None
                case BlockFrame(ordinal, block):
                    assert (ordinal, block.first_row) == (self.state.ordinal, self.state.row)
                    self.state = replace(
                        self.state,
                        row=block.first_row + block.count,
                        resume=block.resume,
                        rows=self.state.rows + block.count,
                    )
                    return frame
                case FileEnd(ordinal, rows):
                    assert (ordinal, rows) == (self.state.ordinal, self.state.row)
                    self.state = replace(self.state, ordinal=ordinal + 1, row=0, resume=0)
                case Failure(ordinal, sentence):
                    raise QueryError(self.file_name(ordinal), sentence)
                case End():
                    self._connection = None
                    if self.state.ordinal < len(self.state.files):
                        self._begin()  # of the files that were found meanwhile
        return None

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def slots_for(sources: int) -> int:
    return max(sources, os.cpu_count() or 1)
