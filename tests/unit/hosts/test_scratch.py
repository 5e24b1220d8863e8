"""The shuffler's scratch folder: nobody else's while it is used, and nobody's for long afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from biclique.hosts.shuffle.scratch import NAMED, scratch_folder

USER = """
import sys, time
from pathlib import Path
from biclique.hosts.shuffle.scratch import scratch_folder
with scratch_folder(Path(sys.argv[1])) as folder:
    Path(folder, "offsets").mkdir()
    print(folder, flush=True)
    time.sleep(600)
"""


def folders(parent: Path) -> list[str]:
    return sorted(str(path) for path in parent.iterdir())


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_is_used_is_not(tmp_path: Path) -> None:
    users = [
        subprocess.Popen([sys.executable, "-c", USER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        killed, used = (user.stdout.readline().strip() for user in users if user.stdout is not None)
        assert folders(tmp_path) == sorted([killed, used])
        os.kill(users[0].pid, signal.SIGKILL)
        users[0].wait()
        with scratch_folder(tmp_path) as mine:
            assert folders(tmp_path) == sorted([used, mine])
        assert folders(tmp_path) == [used]
    finally:
        for user in users:
            user.kill()
            user.communicate()


def test_what_is_not_ours_is_left_alone_and_a_folder_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / f"{NAMED}file").touch()
    (tmp_path / f"{NAMED}link").symlink_to(tmp_path / "other")
    with scratch_folder(tmp_path) as mine:
        os.rmdir(mine)
    assert folders(tmp_path) == sorted(str(tmp_path / name) for name in ("other", f"{NAMED}file", f"{NAMED}link"))
