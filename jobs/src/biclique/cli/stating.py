"""One sentence on stderr and an exit code for whatever can be foreseen to go wrong; a traceback means a bug of ours."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from biclique.query.errors import QueryError

DONE, USER_ERROR, OUT_OF_MEMORY, FAILED, INTERRUPTED = 0, 2, 3, 4, 130


@contextmanager
def stating_errors() -> Iterator[None]:
    try:
        yield
    except QueryError as error:
        click.echo(f"biclique: {error}", err=True)
        sys.exit(USER_ERROR)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"biclique: {where}{error.strerror or error}", err=True)
        sys.exit(FAILED)
