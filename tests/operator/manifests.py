"""JoinQueries for tests, as a user applies them."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]
# In place of what `spec` asks: with groups, so that there is a merger, too.
GROUPED = "SELECT o.id, COUNT(*) AS n FROM orders o JOIN offers f ON o.price = f.price WITHIN 10 MINUTES GROUP BY o.id"


def spec(**changes: Any) -> Raw:
    """Two subgroups of one unit, all in the drivers. `changes`: keys of the spec."""
    return {
        "sources": [
            {
                "name": name,
                "schema": "id BIGINT, price DOUBLE, at TIMESTAMP",
                "eventTime": {"column": "at", "lateness": "5s"},
                "kafka": {"bootstrapServers": "kafka:9092", "topic": name},
            }
            for name in ("orders", "offers")
        ],
        "sql": "SELECT o.id AS order_id, f.id AS offer_id FROM orders o JOIN offers f ON o.price = f.price "
        "WITHIN 10 MINUTES",
        "tiers": {"executors": 0, "cpu": "100m"},
        "state": {"redis": {"url": "redis://redis:6379/0"}},
        "output": {"kafka": {"bootstrapServers": "kafka:9092", "topic": "pairs"}},
        **changes,
    }


WITH_EXECUTORS: Raw = {"tiers": {"executors": 1, "cpu": "100m"}}
# Every kind of driver that there is.
WITH_MERGER_AND_EXECUTORS: Raw = {
    **WITH_EXECUTORS,
    "sql": "SELECT o.price AS price, COUNT(*) AS pairs FROM orders o JOIN offers f ON o.price = f.price "
    "GROUP BY o.price WITHIN 10 MINUTES",
}


def joinquery(name: str = "fits", namespace: str = "default", **changes: Any) -> Raw:
    return {
        "apiVersion": "biclique.dev/v1alpha1",
        "kind": "JoinQuery",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec(**changes),
    }
