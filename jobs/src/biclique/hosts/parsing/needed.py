"""Which fields of a source are parsed, and which of these its query's expressions use."""

from __future__ import annotations

from biclique.hosts.parsing.rows import Wanted
from biclique.query.model import Query
from biclique.query.used import used_fields


def needed_of(query: Query, source: int) -> tuple[Wanted, tuple[int, ...]]:
    """The fields to parse (the event time is one), and the positions among them of the used ones."""
    declared = query.sources[source]
    time, used = declared.event_time.column, used_fields(query, source)
    parsed = used if time is None else tuple(sorted({*used, time}))
    wanted = Wanted(
        tuple(declared.fields[position] for position in parsed), None if time is None else parsed.index(time)
    )
    return wanted, tuple(parsed.index(position) for position in used)
