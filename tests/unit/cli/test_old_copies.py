"""A driver's pod whose node mounts an older copy than the pod was made for ends at once, before anything is begun, with
an exit code of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from biclique.cli.main import cli
from biclique.query.pod import MANIFEST_DIGEST, OLD_COPY, SPARK_DIGEST, SPARK_FILES, digest_of
from tests.unit.cli.test_refusals import TOPICS, own_signals

NEVER_READ = "this is no manifest"
__all__ = ["own_signals"]


@pytest.fixture(autouse=True)
def clean(own_signals: Iterator[None], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (MANIFEST_DIGEST, SPARK_DIGEST, "SPARK_CONF_DIR", "BICLIQUE_CONTROL"):
        monkeypatch.delenv(name, raising=False)


def tier(manifest: Path, text: str, **settings: str) -> Result:
    manifest.write_text(text)
    return CliRunner().invoke(cli, ["tier", "dispatcher", str(manifest)], env=settings)


def test_an_older_manifest_than_the_pods_is_not_even_judged(tmp_path: Path) -> None:
    found = tier(tmp_path / "join.yaml", NEVER_READ, **{MANIFEST_DIGEST: digest_of(TOPICS)})
    assert found.exit_code == OLD_COPY, found.output
    assert "its node knew an older copy, and the next attempt reads the new one" in found.stderr


def test_the_right_one_is_read(tmp_path: Path) -> None:
    found = tier(tmp_path / "join.yaml", TOPICS, **{MANIFEST_DIGEST: digest_of(TOPICS)})
    assert found.exit_code == 2 and "spec.sources[1]" in found.stderr, found.output
    assert tier(tmp_path / "join.yaml", NEVER_READ).exit_code == 2, "nobody says which it is to be"


@pytest.mark.parametrize("old", SPARK_FILES)
def test_what_spark_is_told_is_looked_at_too(old: str, tmp_path: Path) -> None:
    for name in SPARK_FILES:
        (tmp_path / name).write_text(f"{name} of today")
    digest = digest_of(*((tmp_path / name).read_text() for name in SPARK_FILES))
    settings = {SPARK_DIGEST: digest, "SPARK_CONF_DIR": str(tmp_path)}
    assert tier(tmp_path / "join.yaml", TOPICS, **settings).exit_code == 2
    (tmp_path / old).write_text(f"{old} of yesterday")
    assert tier(tmp_path / "join.yaml", TOPICS, **settings).exit_code == OLD_COPY


def test_texts_that_are_divided_otherwise_are_others() -> None:
    assert digest_of("ab", "c") != digest_of("a", "bc")
