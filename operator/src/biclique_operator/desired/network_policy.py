"""Who may speak to a query's pods: its own pods among themselves, whoever fetches metrics, and the operator and the
kubelet, who ask drivers how they are.

It bounds what comes in. What goes out is left open: Kafka, Redis and collectors are wherever the manifest says, by
names that a policy cannot know."""

from __future__ import annotations

from biclique.query.pod import BLOCKS_PORT, DRIVER_PORT, METRICS_PORT, METRICS_PORTS, STATUS_PORT
from biclique_operator.desired.names import QueryName, metadata


def network_policy(query: QueryName) -> dict[str, object]:
    own = {"podSelector": {"matchLabels": {"app.kubernetes.io/instance": query.id}}}
    between = [{"protocol": "TCP", "port": port} for port in (STATUS_PORT, DRIVER_PORT, BLOCKS_PORT)]
    metrics = {"protocol": "TCP", "port": METRICS_PORT, "endPort": METRICS_PORT + METRICS_PORTS - 1}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(query, query.id),
        "spec": {
            "podSelector": own["podSelector"],
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [own], "ports": between},
                {"ports": [metrics]},
                {
                    "from": [
                        {
                            "namespaceSelector": {},
                            "podSelector": {"matchLabels": {"app.kubernetes.io/name": "biclique-operator"}},
                        }
                    ],
                    "ports": [{"protocol": "TCP", "port": STATUS_PORT}],
                },
            ],
        },
    }
