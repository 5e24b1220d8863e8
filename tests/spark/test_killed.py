"""`biclique run` killed and interrupted, Java and all, at whatever it is then doing: the same command goes on, and
every pair is in its files once.

The engine's every step is killed in tests/unit/hosts without Java; here is what only the real thing can show, that no
process is left behind among it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.spark.processes import (
    SEED,
    WAIT_SECONDS,
    barrier,
    big,
    command,
    java_of,
    judge,
    run,
    wait_for_java_to_end,
    wait_until,
)
from tests.unit.hosts.local_runs import parts

ROWS = 2_000_000  # enough for a run of some seconds
MANY_UNITS_ROWS = 600_000

pytestmark = pytest.mark.spark


def test_killed_again_and_again_no_pair_is_lost_or_doubled(tmp_path: Path) -> None:
    """Each life is killed a moment after its first barrier, at whatever it is then doing."""
    big(tmp_path, ROWS)
    rng = random.Random(SEED)
    killed = 0
    for _ in range(3):
        before = max(barrier(tmp_path), 0)
        with subprocess.Popen(command(tmp_path, "--barrier", "0.1"), stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: barrier(tmp_path) > before, process)  # noqa: B023 - called before the next turn
            time.sleep(rng.random() * 0.3)
            killed += process.poll() is None
            process.kill()
        wait_for_java_to_end(tmp_path)
    assert killed == 3, "it finished before it was killed: give it more rows"
    done = run(tmp_path, "--barrier", "0.3", "--json")
    assert done.returncode == 0, done.stderr
    judge(tmp_path, ROWS)
    summary = json.loads(done.stdout)
    assert [(s["read"], s["joined"]) for s in summary["sources"]] == [(ROWS, ROWS)] * 2
    assert summary["rows_out"] == ROWS
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
    again = run(tmp_path)
    assert (again.returncode, again.stdout.split(":")[0]) == (0, "This run has finished before")


@pytest.mark.parametrize(
    "plan",
    [
        "  plan: {strategy: biclique, subgroups: {a: 2, b: 2}}\n  joiners: {replicas: 2}\n",
        "  plan: {strategy: matrix}\n  joiners: {replicas: 3}\n",
    ],
    ids=["ContRand, 8 units", "matrix, 2 x 3 units"],
)
def test_killed_with_several_units_no_pair_is_lost_or_doubled(tmp_path: Path, plan: str) -> None:
    big(tmp_path, MANY_UNITS_ROWS, end=plan)
    with subprocess.Popen(command(tmp_path, "--barrier", "0.1"), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: barrier(tmp_path) > 0 and bool(parts(tmp_path / "out")), process)
        process.kill()
    assert process.returncode == -signal.SIGKILL
    done = run(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    judge(tmp_path, MANY_UNITS_ROWS)
    summary = json.loads(done.stdout)
    assert [(s["read"], s["joined"]) for s in summary["sources"]] == [(MANY_UNITS_ROWS, MANY_UNITS_ROWS)] * 2


def test_ctrl_c_stops_at_a_checkpoint_and_says_how_to_go_on(tmp_path: Path) -> None:
    """As a terminal does it: the signal goes to the whole foreground group, of which Java and its Python workers are no
    part: they would end before the engine has made its last barrier."""
    big(tmp_path, ROWS)
    with subprocess.Popen(
        command(tmp_path, "--barrier", "0.2"),
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        wait_until(lambda: barrier(tmp_path) > 0 and bool(parts(tmp_path / "out")), process)
        assert {os.getsid(java) for java in java_of(tmp_path)}.isdisjoint({os.getsid(process.pid)})
        assert java_of(tmp_path), "nothing was looked at"
        os.killpg(process.pid, signal.SIGINT)
        said, told = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 130, told
    assert "stopped; the same command goes on from here: biclique run" in told
    assert "Traceback" not in told
    assert "joined" in said
    wait_for_java_to_end(tmp_path)
    assert run(tmp_path).returncode == 0
    judge(tmp_path, ROWS)
