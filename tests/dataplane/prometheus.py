"""What Prometheus finds at the ports that the units of running tiers say they serve."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Set

from prometheus_client.parser import text_string_to_metric_families

from biclique.ports.metrics import METRICS, Metric
from tests.dataplane.query import KafkaQuery

SETTINGS = {"OTEL_METRICS_EXPORTER": "prometheus", "OTEL_EXPORTER_PROMETHEUS_PORT": "0"}
SUFFIXES = {"s": "_seconds", "By": "_bytes"}


def name_of(metric: Metric) -> str:
    return metric.name.replace(".", "_") + SUFFIXES.get(metric.unit, "")


def untold(query: KafkaQuery, tier: str, rare: Set[str], seconds: float) -> set[str]:
    """Of the metrics that a tier tells, those that none of its units has, when they have had so long."""
    wanted = {name_of(metric) for metric in METRICS if tier in metric.tiers and metric.name not in rare}
    deadline = time.monotonic() + seconds
    while left := wanted - _found(query, tier):
        if time.monotonic() > deadline:
            break
        time.sleep(0.5)
    return left


def _found(query: KafkaQuery, tier: str) -> set[str]:
    found: set[str] = set()
    for line in (query.folder / f"{tier}.log").read_text().splitlines():
        if '"metrics.served"' in line:
            try:
                with urllib.request.urlopen(f"http://localhost:{json.loads(line)['port']}/metrics", timeout=5) as page:
                    text = page.read().decode()
            except OSError:
                continue  # of one that is over, or has no time now: it is asked again
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.labels.get("biclique_tier") == tier and sample.labels["biclique_query"] == query.name:
                        found.add(family.name)
    return found
