"""Every bad manifest in negative/ gets the sentence in the file beside it: one line, a place, a remedy, no traceback.

UPDATE_GOLDEN=1 writes the sentences anew; read the difference as a user would before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError

FOLDER = Path(__file__).parent / "negative"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
MANIFESTS_MIN = 150  # a ratchet: cases are added, not lost


def sentence_of(manifest: Path) -> str:
    with pytest.raises(QueryError) as caught:
        compile_manifest(manifest.read_text(encoding="utf-8"), exists=lambda path: (FOLDER / path).exists())
    return str(caught.value)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_sentence_is_the_golden_one(manifest: Path) -> None:
    golden = manifest.with_suffix(".txt")
    sentence = sentence_of(manifest)
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(sentence + "\n", encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == sentence + "\n"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_sentence_names_a_place_and_a_remedy_on_one_line(manifest: Path) -> None:
    with pytest.raises(QueryError) as caught:
        compile_manifest(manifest.read_text(encoding="utf-8"), exists=lambda path: (FOLDER / path).exists())
    error = caught.value
    assert error.place.startswith(("line ", "spec.sql")), error
    assert error.problem and error.remedy, error
    assert str(error).isprintable() and len(str(error)) <= 300, error


def test_no_case_is_lost() -> None:
    assert len(MANIFESTS) >= MANIFESTS_MIN
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in MANIFESTS}
