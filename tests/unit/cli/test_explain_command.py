"""`biclique explain`: as text and as JSON, with what a user knows of the data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from biclique.cli.main import cli

MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: fits}
spec:
  sources:
    - {name: a, schema: "k INT, at TIMESTAMP", eventTime: {column: at}, files: {path: a, format: csv}}
    - {name: b, schema: "k INT, at TIMESTAMP", eventTime: {column: at}, files: {path: b, format: csv}}
  sql: SELECT a.k FROM a JOIN b ON a.k = b.k WITHIN 1 MINUTE
  joiners: {replicas: 4}
  output: {files: {path: out, format: csv}}
"""


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "join.yaml").write_text(MANIFEST, encoding="utf-8")
    return tmp_path / "join.yaml"


def explained(manifest: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["explain", str(manifest), *arguments])


def test_json_holds_the_plan_and_its_numbers(manifest: Path) -> None:
    done = explained(manifest, "--json", "--stat", "a.rate=50", "--stat", "a.distinct=300", "--stat", "b.distinct=200")
    assert (done.exit_code, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert (plan["query"], plan["order"], plan["mergers"]) == ("fits", ["a", "b"], 0)
    (stage,) = plan["stages"]
    assert stage["strategy"] == "hash"
    assert (stage["left"]["rate_per_s"], stage["left"]["rows"]) == (50.0, 3_000.0)
    assert (stage["left"]["messages_per_tuple"], stage["left"]["probes_per_tuple"]) == (2.0, 1.0)
    assert stage["results_per_s"] == pytest.approx((50 * 60_000 + 1_000 * 3_000) / 300)
    assert plan["assumed"]["given"] == ["a.rate=50", "a.distinct=300", "b.distinct=200"]


def test_the_text_says_the_same(manifest: Path) -> None:
    done = explained(manifest, "--stat", "a.rate=50", "--stat", "equality=0.001")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "a 50/s and 3k rows stored" in done.stdout
    assert done.stdout.endswith("given        a.rate=50, equality=0.001\n")


@pytest.mark.parametrize("command", ["explain", "run"])
def test_a_wrong_statistic_is_one_sentence_and_exit_code_2(manifest: Path, command: str) -> None:
    done = CliRunner().invoke(cli, [command, str(manifest), "--stat", "a.rat=50"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "biclique: --stat a.rat=50: there is no statistic rat; did you mean rate?\n"
