"""By what a driver and its executors know each other: a Secret of the query's, with a value that nobody is told."""

from __future__ import annotations

from typing import Any

from biclique_operator.desired.names import QueryName, metadata


def authentication(query: QueryName) -> dict[str, Any]:
    """Without its value, which whoever makes it draws. It never changes: executors that a driver starts tomorrow must
    know what it has read today. One that was lost is followed by one of another name (names.py)."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "immutable": True,
        "metadata": metadata(query, query.authentication),
    }
