"""Servers as child processes of whoever starts them: a free port, a start that waits until it answers, a sure end."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
OUR_PORTS = (15_000, 32_000)


class DidNotStart(Exception):
    """The server ended, or did not answer in time; the end of its log says why."""


# Where a broker in the test cluster tells those to come that come through a forwarded port (tests/e2e/forwarding.py).
FORWARDED = 19_092
_GIVEN = {FORWARDED}


def free_port() -> int:
    """Below the range from which the system takes the ports of outgoing connections: until the server binds it, a
    client beside us could be given one that the system names. None is given twice, since until then it seems free."""
    while True:
        port = _of_ours() + random.randrange(2)
        if _is_free(port):
            _GIVEN.add(port)
            return port


def free_pair() -> int:
    """The first of two in a row."""
    while True:
        port = _of_ours()
        if _is_free(port) and _is_free(port + 1):
            _GIVEN.update((port, port + 1))
            return port


def _of_ours() -> int:
    """The first of a pair. Of several workers of one test run each has pairs of its own: none knows which another was
    given just now."""
    worker, workers = os.environ.get("PYTEST_XDIST_WORKER", "gw0"), os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    first, last = OUR_PORTS
    return 2 * random.randrange(first // 2 + int(worker.removeprefix("gw")), last // 2, int(workers))


def _is_free(port: int) -> bool:
    if port in _GIVEN:
        return False
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def start(command: Sequence[str], folder: Path, answers: Callable[[], bool]) -> subprocess.Popen[bytes]:
    """The process, once `answers` is true. It works in `folder`, writes `log` there, and leads a group of its own:
    a Ctrl-C at our terminal is not for it."""
    log = folder / "log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_LIMIT_S
    try:
        while not answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise DidNotStart(f"{command[0]} did not start:\n{tail(log)}")
            time.sleep(0.05)
    except BaseException:
        stop(process)
        raise
    return process


def stop(process: subprocess.Popen[bytes], limit_s: float = STOP_LIMIT_S) -> None:
    """Asked first, then made to. Also right for a process that has ended, or was stopped by a signal."""
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGCONT)
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
