"""The two custom resource definitions: names, columns, subresources, around the schemas of schema.py."""

from __future__ import annotations

from typing import Any

import yaml

from biclique_operator.crd.resource import JoinQuery, JoinSubgroup
from biclique_operator.crd.schema import schema_of

GROUP, VERSION = "biclique.dev", "v1alpha1"
MADE = "# Made from the models by `python -m biclique_operator.crd`; a test refuses what was written here by hand.\n"
OBJECT: dict[str, Any] = {
    "apiVersion": {"type": "string", "description": "biclique.dev/v1alpha1."},
    "kind": {"type": "string", "description": "What this is."},
    "metadata": {"type": "object"},
}


def _column(name: str, path: str, kind: str = "string", description: str = "", wide: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
    if description:
        found["description"] = description
    return found | ({"priority": 1} if wide else {})


def _of_condition(type_: str, field: str) -> str:
    return f'.status.conditions[?(@.type=="{type_}")].{field}'


READY = _column("Ready", _of_condition("Ready", "status"), description="Whether all of it runs.")
FIGURES = (
    _column("Units", ".status.units", description="Units that run, of those that there should be."),
    _column("Rate", ".status.rate", description="Rows read a second."),
    _column("Lag", ".status.lag", description="Rows that wait to be read."),
    _column("State", ".status.state", description="How much is stored."),
)
LAST = (
    _column("Age", ".metadata.creationTimestamp", "date"),
    _column("Reason", _of_condition("Ready", "reason"), wide=True),
    _column("Message", _of_condition("Ready", "message"), wide=True),
)


def definitions() -> dict[str, dict[str, Any]]:
    """File name → definition."""
    strategy = _column("Strategy", ".status.strategy", description="How tuples are spread over units.")
    query = _definition(
        "JoinQuery",
        "joinqueries",
        ["jq"],
        "A join of streams on any predicate, written as one SQL query.",
        schema_of(JoinQuery),
        (READY, strategy, *FIGURES, *LAST),
        {"status": {}},
    )
    name = (_column("Query", ".spec.query"), _column("Subgroup", ".spec.subgroup"))
    scale = {
        "specReplicasPath": ".spec.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    subgroup = _definition(
        "JoinSubgroup",
        "joinsubgroups",
        ["jsg"],
        "The joiner units of one subgroup of a JoinQuery. The operator makes it.",
        schema_of(JoinSubgroup),
        (*name, READY, *FIGURES, *LAST),
        {"status": {}, "scale": scale},
    )
    return {"joinqueries.yaml": query, "joinsubgroups.yaml": subgroup}


def _definition(
    kind: str,
    plural: str,
    short: list[str],
    description: str,
    schema: dict[str, Any],
    columns: tuple[dict[str, Any], ...],
    subresources: dict[str, Any],
) -> dict[str, Any]:
    schema = {
        "description": description,
        **schema,
        "properties": {**OBJECT, **{key: schema["properties"][key] for key in ("spec", "status")}},
        "required": ["spec"],
    }
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": list(columns),
        "schema": {"openAPIV3Schema": schema},
        "subresources": subresources,
    }
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {"app.kubernetes.io/name": "biclique"}},
        "spec": {
            "group": GROUP,
            "names": {**names, "shortNames": short, "categories": ["biclique", "streaming"]},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def written() -> dict[str, str]:
    """File name → text."""
    return {
        name: MADE + yaml.dump(definition, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=118)
        for name, definition in definitions().items()
    }


class _Plain(yaml.SafeDumper):
    """Without anchors, which many a tool does not read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
