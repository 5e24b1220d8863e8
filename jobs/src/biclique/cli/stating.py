"""One sentence on stderr and an exit code for whatever can be foreseen to go wrong; a traceback means a bug of ours."""

from __future__ import annotations

import errno
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from biclique.ports.refusals import Refused, StartAnew
from biclique.query.errors import QueryError

DONE, USER_ERROR, OUT_OF_MEMORY, FAILED, REFUSED, INTERRUPTED = 0, 2, 3, 4, 5, 130


def same_command() -> str:
    """With which a run goes on."""
    return shlex.join(["biclique", *(word for word in sys.argv[1:] if word != "--restart")])


@contextmanager
def stating_errors() -> Iterator[None]:
    try:
        yield
    except QueryError as error:
        click.echo(f"biclique: {error}", err=True)
        sys.exit(USER_ERROR)
    except Refused as stop:
        click.echo(f"biclique: {stop}", err=True)
        sys.exit(FAILED if isinstance(stop, StartAnew) else REFUSED)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"make some, and the same command goes on from its last checkpoint: {same_command()}"
            place = error.filename or "the disk"
            click.echo(f"biclique: {QueryError(str(place), 'there is no room left on the disk', remedy)}", err=True)
            sys.exit(FAILED)
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"biclique: {where}{error.strerror or error}", err=True)
        sys.exit(FAILED)
