"""A shipped module with some of its text changed, for as long as one process lives. Nothing is written to the disk.

A finder in front of all others compiles the changed source in place of the file's. The module keeps its file name, so
that numba finds the compiled kernels of what has not changed. It must be installed before the module is first imported:
hence in a process that is forked from one which has imported nothing of the package.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

PACKAGE_ROOT = Path(__file__).resolve().parents[2] / "jobs" / "src"


@dataclass(frozen=True)
class Patch:
    """`hunks`: pairs (old, new); each old text stands exactly once in the module's file, and the new takes its
    place."""

    module: str
    hunks: tuple[tuple[str, str], ...]

    @property
    def path(self) -> Path:
        return PACKAGE_ROOT / (self.module.replace(".", "/") + ".py")

    def patched(self) -> str:
        source = self.path.read_text()
        for old, new in self.hunks:
            found = source.count(old)
            if found != 1:
                raise ValueError(f"{self.path.name} has the old text {found} times:\n{old}")
            source = source.replace(old, new)
        return source


class PatchedLoader(importlib.abc.SourceLoader):
    def __init__(self, patch: Patch) -> None:
        self._patch = patch

    def get_filename(self, fullname: str) -> str:
        return str(self._patch.path)

    def get_data(self, path: str) -> bytes:
        return self._patch.patched().encode()


class PatchingFinder(importlib.abc.MetaPathFinder):
    def __init__(self, patch: Patch) -> None:
        self._patch = patch

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._patch.module:
            return None
        return importlib.util.spec_from_file_location(fullname, self._patch.path, loader=PatchedLoader(self._patch))


def install(patch: Patch) -> None:
    assert patch.module not in sys.modules, f"{patch.module} was imported before it could be patched"
    sys.meta_path.insert(0, PatchingFinder(patch))
