"""Every good manifest in positive/ becomes the query in the file beside it, with paths from a folder /manifests.

UPDATE_GOLDEN=1 writes the golden files anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from biclique.query.compile import compile_manifest
from biclique.query.manifest import read_manifest
from biclique.query.sql import check_sql
from tests.model.tree_invariants import check_query
from tests.unit.query.rendering import rendered_query

FOLDER = Path(__file__).parent / "positive"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_query_is_the_golden_one(manifest: Path) -> None:
    found = rendered_query(compile_manifest(manifest.read_text(encoding="utf-8"), "/manifests"))
    golden = manifest.with_suffix(".txt")
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_its_trees_keep_their_promises(manifest: Path) -> None:
    text = manifest.read_text(encoding="utf-8")
    query = compile_manifest(text)
    checked = check_sql(read_manifest(text).spec.sql, [(source.name, source.fields) for source in query.sources])
    assert (checked.filters, checked.predicates, checked.items) == (query.filters, query.predicates, query.items)
    fields = tuple(query.sources[relation.source].fields for relation in query.relations)
    check_query(checked, tuple(tuple(field.type for field in columns) for columns in fields))


def test_no_case_is_lost() -> None:
    assert len(MANIFESTS) >= 10
    assert {path.stem for path in FOLDER.glob("*.txt")} == {path.stem for path in MANIFESTS}
