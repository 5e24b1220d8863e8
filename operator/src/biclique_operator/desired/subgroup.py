"""A JoinSubgroup: the units of one subgroup as an object of its own, so that each can be looked at, and later scaled,
by itself (a CustomResource has only one scale)."""

from __future__ import annotations

from biclique_operator.desired.names import API_VERSION, SUBGROUP, QueryName, metadata


def subgroup(query: QueryName, name: str, replicas: int) -> dict[str, object]:
    """`replicas`: what stands there already, where it does. The number is its user's from then on."""
    return {
        "apiVersion": API_VERSION,
        "kind": "JoinSubgroup",
        "metadata": metadata(query, query.subgroup(name), {SUBGROUP: name}),
        "spec": {"query": query.name, "subgroup": name, "replicas": replicas},
    }
