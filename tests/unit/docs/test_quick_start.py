"""The recording that README shows is of the commands that stand there, and the picture is of the recording."""

from __future__ import annotations

import json
import os

import pytest

from tests.e2e.quick_start import Failed, Shell, quick_start
from tests.e2e.recording import CAST, PICTURE, cast
from tests.e2e.recording_svg import COLUMNS, ROWS, commands_of, lines_of, picture


def test_the_recording_is_of_the_commands_of_the_readme() -> None:
    """Else run `python -m tests.e2e.recording` again."""
    assert commands_of(CAST.read_text(encoding="utf-8")) == list(quick_start().on_any_cluster)


def test_the_picture_is_of_the_recording() -> None:
    assert PICTURE.read_text(encoding="utf-8") == picture(CAST.read_text(encoding="utf-8"))


def test_every_block_of_the_quick_start_is_seen() -> None:
    written = quick_start()
    assert written.cluster[:2] == ("make cluster-up", "make cluster-load")
    assert len(written.install) == 1 and "tryout.kafka.enabled=true" in written.install[0]
    assert written.look[0].endswith("apply -f examples/orders-offers/kubernetes.yaml")
    assert written.leave[0].startswith("helm -n biclique uninstall biclique")


def test_a_shell_goes_from_command_to_command_and_stops_at_what_fails() -> None:
    shell = Shell(dict(os.environ))
    try:
        assert shell.run("export SEEN=so", 20) == ""
        assert shell.run("cat; echo $SEEN; printf further", 20) == "so\nfurther"
        with pytest.raises(Failed, match="to nothing\nexit code 3"):
            shell.run("echo to nothing >&2; (exit 3)", 20)
        assert [text for _, text in shell.said][:2] == ["$ export SEEN=so\n", "$ cat; echo $SEEN; printf further\n"]
        with pytest.raises(Failed, match="did not end within 0 s"):
            shell.run("sleep 60", 0.2)
    finally:
        shell.end()


def test_pauses_are_cut_and_long_lines_broken() -> None:
    said = [(0.0, "$ one \\\n  two\n"), (10.0, "x" * (COLUMNS + 1) + "\n"), (10.5, "\n")]
    kept = "\n".join(cast(said, 1_700_000_000.0))
    assert commands_of(kept) == ["one \\\n  two"]
    assert [(line.second, line.text, line.typed) for line in lines_of(kept)] == [
        (0.0, "$ one \\", True),
        (0.0, "  two", True),
        (2.0, "x" * COLUMNS, False),
        (2.0, "x", False),
        (2.5, "", False),
    ]


def test_the_newest_line_stays_in_sight() -> None:
    said = [(second / 10, f"{second}\n") for second in range(ROWS + 2)]
    drawn = picture("\n".join(cast(said, 0.0)))
    assert drawn.count("<text ") == ROWS + 2
    assert "{transform:translateY(-17px)}" in drawn and "{transform:translateY(-34px)}" in drawn
    assert json.loads(next(cast(said, 5.5)))["timestamp"] == 5
