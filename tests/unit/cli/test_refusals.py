"""What the command says when a manifest is wrong: one sentence, exit code 2, no traceback, whichever command reads
it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from biclique.cli.main import cli
from biclique.cli.stating import stating_errors
from biclique.ports.file_sink import replace_file

NEGATIVE = sorted((Path(__file__).parents[1] / "query" / "negative").glob("*.yaml"))
GOOD = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: good}
spec:
  sources:
    - {name: a, schema: "k INT", files: {path: a, format: csv}}
    - {name: b, schema: "k INT", files: {path: b, format: csv}}
  sql: SELECT a.k FROM a JOIN b ON a.k < b.k
  output: {files: {path: out, format: csv}}
"""


def refused(command: str, manifest: Path) -> str:
    found = CliRunner().invoke(cli, [command, str(manifest)])
    assert found.exit_code == 2, found.output
    assert isinstance(found.exception, SystemExit), "a traceback would have been shown"
    (line,) = found.stderr.splitlines()
    return line.removeprefix("biclique: ")


@pytest.mark.parametrize("command", ["validate", "explain", "run"])
def test_every_command_refuses_with_the_same_sentence(command: str, tmp_path: Path) -> None:
    assert len(NEGATIVE) > 100
    for manifest in NEGATIVE[:: 1 if command == "validate" else 9]:
        assert len(refused(command, manifest)) > 10, manifest


@pytest.mark.parametrize("command", ["validate", "explain", "run"])
def test_what_the_planner_refuses_is_refused_by_all(command: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    manifest = tmp_path / "join.yaml"
    manifest.write_text(GOOD + "  plan: {strategy: hash}\n")
    assert "hash" in refused(command, manifest)
    manifest.write_text(GOOD)
    if command != "run":
        assert CliRunner().invoke(cli, [command, str(manifest)]).exit_code == 0


@pytest.mark.parametrize("command", ["validate", "explain", "run"])
def test_a_manifest_that_is_not_there(command: str, tmp_path: Path) -> None:
    assert "there is no such file" in refused(command, tmp_path / "none.yaml")


@pytest.mark.parametrize("command", ["validate", "explain", "run"])
def test_a_manifest_that_is_no_file(command: str, tmp_path: Path) -> None:
    assert "this is a folder; name the manifest in it" in refused(command, tmp_path)
    os.mkfifo(tmp_path / "pipe")
    assert "this is no regular file; put the manifest into one" in refused(command, tmp_path / "pipe")


TOPICS = GOOD.replace("files: {path: a, format: csv}", "kafka: {bootstrapServers: '127.0.0.1:1', topic: a}")


@pytest.fixture
def own_signals() -> Iterator[None]:
    """A command takes Ctrl-C for itself; here it is the tests'."""
    before = [(name, signal.getsignal(name)) for name in (signal.SIGINT, signal.SIGTERM)]
    yield
    for name, handler in before:
        signal.signal(name, handler)


@pytest.mark.usefixtures("own_signals")
def test_a_run_without_its_brokers_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.units.start_up.KAFKA_ANSWERS_S", 0.5)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "0.csv").write_text("k\n1\n")
    (tmp_path / "join.yaml").write_text(TOPICS)
    found = CliRunner().invoke(cli, ["run", str(tmp_path / "join.yaml")])
    assert found.exit_code == 4, found.output
    assert isinstance(found.exception, SystemExit), "a traceback would have been shown"
    (line,) = [line for line in found.stderr.splitlines() if line.startswith("biclique: ")]
    assert line.startswith("biclique: Kafka at 127.0.0.1:1 does not answer (")
    assert "; correct bootstrapServers, or wait for it: the same command goes on from here" in line


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "0", "1e999"])
def test_a_barrier_is_a_number_of_seconds(seconds: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(cli, ["run", str(tmp_path / "none.yaml"), "--barrier", seconds])
    assert found.exit_code == 2
    assert "Invalid value for '--barrier'" in found.stderr


def test_a_full_disk_is_said_with_a_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["biclique", "run", "join.yaml", "--restart"])
    (tmp_path / "state.new").symlink_to("/dev/full")
    with pytest.raises(SystemExit) as end, stating_errors():
        replace_file(tmp_path / "state", b"state")
    assert end.value.code == 4
    said = capsys.readouterr().err
    assert said.startswith(f"biclique: {tmp_path}/state: there is no room left on the disk; make some, and the same")
    assert said.endswith("goes on from its last checkpoint: biclique run join.yaml\n")
