"""Every command, path and manifest that the documents name is real.

Goal: a reader who types what is written gets what is written. Method: the documents are read as text; `make x` must be
a target of the Makefile, `biclique x` a command of the CLI, a path a file, and a manifest one that compiles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = (
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
)
PLACES = "examples|docs|tests|jobs|bench|charts|images|infra|operator"


def blocks(text: str, language: str) -> Iterator[str]:
    yield from re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def make_targets() -> set[str]:
    return set(
        re.findall(r"^([a-z][a-z-]*)(?=[^\n=]*:(?!=))", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )


def named_targets(text: str) -> set[str]:
    return set(re.findall(r"(?:^|`)make ([a-z][a-z-]*)", text, re.MULTILINE))


def named_commands(text: str) -> set[str]:
    return set(re.findall(r"(?:^|`)(?:\.venv/bin/)?biclique ([a-z]+)", text, re.MULTILINE))


def named_paths(text: str) -> set[str]:
    in_code = re.findall(rf"(?:^|[\s`])((?:{PLACES})/[\w./-]*\w)", text, re.MULTILINE)
    return {path for path in in_code if "/out" not in path and "/data" not in path}


def linked_paths(text: str) -> set[str]:
    return {link for link in re.findall(r"\]\(([^)#\s]+)", text) if "://" not in link}


def named_tests(text: str) -> set[tuple[str, str]]:
    return set(re.findall(r"(tests/[\w./-]+\.py)::(\w+)", text))


def has_test(path: str, test: str) -> bool:
    return (ROOT / path).exists() and f"def {test}(" in (ROOT / path).read_text(encoding="utf-8")


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_what_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    missing = [f"make {target}" for target in named_targets(text) - make_targets()]
    missing += [f"biclique {command}" for command in named_commands(text) - cli_commands()]
    missing += [path for path in named_paths(text) if not (ROOT / path).exists()]
    missing += [link for link in linked_paths(text) if not (document.parent / link).exists()]
    missing += [f"{path}::{test}" for path, test in named_tests(text) if not has_test(path, test)]
    assert not missing, f"{name(document)} names what is not there: {sorted(missing)}"


def cli_commands() -> set[str]:
    from biclique.cli.main import cli

    return set(cli.commands)


def manifests() -> list[tuple[str, str]]:
    found = [(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in ROOT.glob("examples/*/*.yaml")]
    for document in DOCUMENTS:
        yaml = [block for block in blocks(document.read_text(encoding="utf-8"), "yaml") if "kind: JoinQuery" in block]
        found += [(f"{name(document)}, manifest {number}", block) for number, block in enumerate(yaml, 1)]
    return found


@pytest.mark.parametrize("text", [pytest.param(text, id=where) for where, text in manifests()])
def test_a_manifest_in_the_documents_compiles(text: str) -> None:
    from biclique.query.compile import compile_manifest

    assert compile_manifest(text).items


def test_the_readers_read() -> None:
    """A pattern that found nothing would make everything above true."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"setup", "demo", "test", "check"} <= named_targets(text)
    assert {"run", "validate", "explain"} <= named_commands(text)
    assert {"docs/first-join.md", "examples"} <= linked_paths(text)
    assert {"setup", "test", "demo", "clean"} <= make_targets()
    assert "no-such-target" in named_targets("`make no-such-target`")
    assert "docs/no-such.md" in named_paths("see `docs/no-such.md`")
    guarantees = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    assert len(named_tests(guarantees)) >= 12
    assert not has_test("tests/unit/docs/test_documents.py", "test_no_such")
    assert len(manifests()) >= 7


def test_the_readme_says_all_of_it() -> None:
    """The other way round: a command that exists and that nobody would find is not there either."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert named_commands(text) == cli_commands()
    of_others = {"help", "java", "servers", "lint", "fast", "format", "lock", "clean"}
    of_others |= {
        "cluster-build",
        "cluster-packages",
        "cluster-load-",
        "images-tryout",
        "test-local",
        "test-seeds",
    }  # which others call
    assert named_targets(text) | of_others == make_targets()
