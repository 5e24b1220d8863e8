"""One sentence on stderr and an exit code for whatever can be foreseen to go wrong; a traceback means a bug of ours."""

from __future__ import annotations

import errno
import logging
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from biclique.hosts.logs import logging_begun
from biclique.ports.refusals import OldCopy, Refused, StartAnew
from biclique.query import pod
from biclique.query.errors import QueryError

DONE, USER_ERROR, OUT_OF_MEMORY, FAILED, REFUSED, INTERRUPTED = 0, 2, 3, 4, 5, 130
LOG = logging.getLogger(__name__)


def same_command() -> str:
    """With which a run goes on."""
    return shlex.join(["biclique", *(word for word in sys.argv[1:] if word != "--restart")])


def _say(sentence: object) -> None:
    """In a tier that has begun to log, as an event of its log: machines read it."""
    if logging_begun():
        LOG.error("%s", sentence, extra={"event": "tier.stopped"})
    else:
        click.echo(f"biclique: {sentence}", err=True)


@contextmanager
def stating_errors() -> Iterator[None]:
    try:
        yield
    except QueryError as error:
        _say(error)
        sys.exit(USER_ERROR)
    except Refused as stop:
        _say(stop)
        sys.exit(pod.OLD_COPY if isinstance(stop, OldCopy) else FAILED if isinstance(stop, StartAnew) else REFUSED)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = f"make some, and the same command goes on from its last checkpoint: {same_command()}"
            place = error.filename or "the disk"
            _say(QueryError(str(place), "there is no room left on the disk", remedy))
            sys.exit(FAILED)
        where = f"{error.filename}: " if error.filename else ""
        _say(f"{where}{error.strerror or error}")
        sys.exit(FAILED)
