"""How many drivers a voluntary disruption must leave: all but one, so that a drained node loses a tier at a time and
the next one goes when its successor runs.

Bare pods have nothing that says how many there should be, so the budget is a whole number. A driver that is not ready
may always be evicted: it would hold back a drain for ever.
"""

from __future__ import annotations

from biclique_operator.desired.names import DRIVER, QueryName, metadata


def disruption_budget(query: QueryName, drivers: int) -> dict[str, object]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(query, query.id),
        "spec": {
            "minAvailable": max(0, drivers - 1),
            "selector": {"matchLabels": query.selector(DRIVER)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }
