"""From a manifest's path to a checked query: the only reading that validate and explain do."""

from __future__ import annotations

import os
from pathlib import Path

from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from biclique.query.manifest import read_manifest
from biclique.query.model import Query
from biclique.query.one_machine import without_use


def load(manifest: Path) -> Query:
    return compile_manifest(text_of(manifest), str(manifest.parent), os.path.exists)


def keys_without_use(manifest: Path) -> tuple[str, ...]:
    """Of a manifest that has been loaded: what it says to a cluster alone."""
    return without_use(read_manifest(text_of(manifest)))


def text_of(manifest: Path) -> str:
    if manifest.exists() and not (manifest.is_file() or manifest.is_dir()):
        # A pipe without a writer would be waited for, and what was read of one cannot be read again.
        raise QueryError(str(manifest), "this is no regular file", "put the manifest into one, and name that")
    try:
        return manifest.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise QueryError(str(manifest), "there is no such file", "name a JoinQuery manifest") from None
    except IsADirectoryError:
        raise QueryError(str(manifest), "this is a folder", "name the manifest in it") from None
    except PermissionError:
        raise QueryError(str(manifest), "the file may not be read", "give this user the right to") from None
    except UnicodeDecodeError:
        raise QueryError(str(manifest), "the file is not UTF-8 text", "name a JoinQuery manifest") from None
