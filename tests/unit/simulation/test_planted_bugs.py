"""Planted bugs stay what they are: patches that apply to today's code, each with the seed that caught it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.simulation.patching import Patch
from tests.simulation.planted import DOCUMENT, SEEDS, Bug, bugs, document, read_bug, recorded

PLANTED = bugs()


def test_there_are_as_many_as_promised() -> None:
    assert len(PLANTED) >= 34
    assert [int(bug.name[:2]) for bug in PLANTED] == list(range(1, len(PLANTED) + 1))


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_a_patch_applies_and_changes_what_the_module_does(bug: Bug) -> None:
    before, after = ast.parse(bug.patch.path.read_text()), ast.parse(bug.patch.patched())
    assert ast.dump(before) != ast.dump(after)
    assert bug.rule.endswith(".")


@pytest.mark.parametrize("bug", PLANTED, ids=lambda bug: bug.name)
def test_the_seed_that_caught_it_is_known(bug: Bug) -> None:
    catch = recorded()[bug.name]
    assert catch.seed is not None and 0 <= catch.seed < SEEDS
    assert catch.said


def test_the_list_is_what_the_command_writes() -> None:
    assert DOCUMENT.read_text() == document(PLANTED, recorded())


def test_a_patch_that_does_not_apply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "99-nonsense.patch"
    file = "jobs/src/biclique/core/stamps.py"
    path.write_text(f"Nonsense.\n\n--- {file}\n+++ {file}\n@@\n-no such line\n+another\n")
    with pytest.raises(ValueError, match="has the old text 0 times"):
        read_bug(path).patch.patched()
    twice = Patch("biclique.core.stamps", (("np.int64", "np.uint64"),))
    with pytest.raises(ValueError, match="times"):
        twice.patched()
