"""The definitions are what the models say, and such as every API server takes: structural, bounded, described.

What only an API server can tell (the cost of rules, what they refuse) is in tests/operator/test_definitions.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from biclique.query.manifest import Manifest, TopicsSpec
from biclique_operator.crd import immutable
from biclique_operator.crd.definitions import definitions, written
from biclique_operator.crd.resource import JoinQuery, JoinSubgroup
from biclique_operator.crd.schema import schema_of

FILES = Path(__file__).parents[3] / "charts/biclique/files/crds"
DEFINITIONS = definitions()


def schema(name: str) -> dict[str, Any]:
    (version,) = DEFINITIONS[name]["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]  # type: ignore[no-any-return]


def nodes(node: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield place, node
    for key, inner in node.get("properties", {}).items():
        yield from nodes(inner, f"{place}.{key}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{place}[]")


EVERY_NODE = [(f"{name.partition('.')[0]}{place}", node) for name in DEFINITIONS for place, node in nodes(schema(name))]


def test_the_files_of_the_chart_are_those_of_the_models() -> None:
    """`python -m biclique_operator.crd` writes them anew."""
    assert {path.name: path.read_text(encoding="utf-8") for path in FILES.glob("*")} == written()


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_file_is_the_definition(name: str) -> None:
    assert yaml.safe_load(written()[name]) == DEFINITIONS[name]


def test_every_node_is_structural() -> None:
    for place, node in EVERY_NODE:
        assert "type" in node or node.get("x-kubernetes-int-or-string"), place
        assert not {"$ref", "anyOf", "allOf", "oneOf", "not", "default", "const", "pattern"} & node.keys(), place
        assert not {"properties", "additionalProperties"} <= node.keys(), place


def test_every_key_is_described() -> None:
    ours = ((place, node) for place, node in EVERY_NODE if not place.endswith(("[]", ".metadata")))
    assert [place for place, node in ours if not node.get("description", "").endswith((".", ","))] == []


def test_what_a_rule_looks_at_is_bounded() -> None:
    """Else the API server, which reckons with the longest text that there may be, refuses the definition."""
    texts = ((place, node) for place, node in EVERY_NODE if node.get("type") == "string")
    assert [p for p, node in texts if "x-kubernetes-validations" in node and "maxLength" not in node] == []


def test_a_manifest_of_the_model_has_a_place_in_the_schema() -> None:
    """Key by key, whatever the generator does."""

    def keys(model: Any, place: str) -> Iterator[str]:
        for name, field in model.model_fields.items():
            here = f"{place}.{field.alias or name}"
            yield here
            for inner in blocks_in(field.annotation):
                yield from keys(inner, here)

    def blocks_in(annotation: Any) -> Iterator[Any]:
        if hasattr(annotation, "model_fields"):
            yield annotation
        for part in getattr(annotation, "__args__", ()):
            yield from blocks_in(part)

    named = {place.replace("[]", "") for place, _ in nodes(schema("joinqueries.yaml"))}
    wanted = {place for place in keys(Manifest, "") if not place.startswith(".metadata.")}
    assert wanted <= named


def test_the_default_of_partitions_is_the_models() -> None:
    assert TopicsSpec().partitions == immutable.PARTITIONS


def test_no_default_is_written_into_what_users_store() -> None:
    assert (
        "Default: 4."
        in schema("joinqueries.yaml")["properties"]["spec"]["properties"]["topics"]["properties"]["partitions"][
            "description"
        ]
    )


def test_the_columns_and_names_are_those_of_the_page() -> None:
    query = DEFINITIONS["joinqueries.yaml"]["spec"]
    (version,) = query["versions"]
    columns = [column["name"] for column in version["additionalPrinterColumns"] if not column.get("priority")]
    assert columns == ["Ready", "Strategy", "Units", "Rate", "Lag", "State", "Age"]
    wide = [column["name"] for column in version["additionalPrinterColumns"] if column.get("priority")]
    assert wide == ["Reason", "Message"]
    assert query["names"]["shortNames"] == ["jq"] and query["names"]["categories"] == ["biclique", "streaming"]
    assert DEFINITIONS["joinsubgroups.yaml"]["spec"]["names"]["shortNames"] == ["jsg"]


def test_a_column_leads_to_a_field_of_the_status() -> None:
    for name in DEFINITIONS:
        (version,) = DEFINITIONS[name]["spec"]["versions"]
        known = {place for place, _ in nodes(schema(name))}
        for column in version["additionalPrinterColumns"]:
            path = column["jsonPath"].replace('[?(@.type=="Ready")]', "[]")
            assert path in known or path == ".metadata.creationTimestamp", column


@pytest.mark.parametrize("model", [JoinQuery, JoinSubgroup])
def test_the_schema_does_not_depend_on_when_it_is_made(model: type[Any]) -> None:
    assert schema_of(model) == schema_of(model)
