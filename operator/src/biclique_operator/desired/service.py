"""A name for a query's pods: whoever fetches metrics without an operator of Prometheus' finds each one's address by it.

Headless, and of pods that are not ready, too: those are the ones that people ask about. What drivers say of themselves
is for the operator, and the policy lets nobody else ask. Nothing of the query itself goes through this name, since
neither drivers nor executors are to wait for it to be known."""

from __future__ import annotations

from biclique.query.pod import METRICS_PORT
from biclique_operator.desired.names import QueryName, metadata


def service(query: QueryName) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(query, query.service),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"app.kubernetes.io/instance": query.id},
            "ports": [
                {"name": "metrics", "protocol": "TCP", "port": METRICS_PORT, "targetPort": METRICS_PORT},
            ],
        },
    }
