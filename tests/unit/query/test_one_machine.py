"""What a manifest says to a cluster alone is known, key by key, and only where it says something."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel

from biclique.query.manifest import Manifest, read_manifest
from biclique.query.one_machine import FOR_A_CLUSTER, without_use

SMALLEST = (Path(__file__).parent / "positive" / "full-history.yaml").read_text(encoding="utf-8")

SETTINGS = {
    "spec.plan.transport": "plan: {transport: semijoin}",
    "spec.joiners.minReplicas": "joiners: {minReplicas: 1}",
    "spec.joiners.maxReplicas": "joiners: {maxReplicas: 4}",
    "spec.joiners.cpu": "joiners: {cpu: 2}",
    "spec.joiners.image": "joiners: {image: x}",
    "spec.joiners.nodeSelector": "joiners: {nodeSelector: {a: b}}",
    "spec.joiners.tolerations": "joiners: {tolerations: []}",
    "spec.tiers": "tiers: {merger: {cpu: 2}}",
    "spec.scaling": "scaling: {policy: twoPhase}",
    "spec.state": "state: {redis: {url: 'redis://r:1/0'}}",
    "spec.topics": "topics: {partitions: 5}",
    "spec.suspend": "suspend: true",
    "spec.delivery": "delivery: atLeastOnce",
}


def with_setting(setting: str) -> Manifest:
    return read_manifest(SMALLEST.rstrip("\n") + f"\n  {setting}\n")


@pytest.mark.parametrize("key", SETTINGS)
def test_a_key_that_is_set_is_named(key: str) -> None:
    assert without_use(with_setting(SETTINGS[key])) == (key,)


@pytest.mark.parametrize(
    "setting",
    [
        *("joiners: {replicas: 3, memory: 1Gi}", "plan: {strategy: random, transport: auto}", "suspend: false"),
        *("scaling: {policy: none}", "tiers: {executors: 1}", "topics: {partitions: 4}", "delivery: exactlyOnce"),
    ],
)
def test_what_is_used_or_says_what_holds_anyway_is_not_named(setting: str) -> None:
    assert without_use(with_setting(setting)) == ()


def test_a_source_is_named_by_its_number() -> None:
    text = SMALLEST.replace(
        "- name: b\n", "- name: b\n      badRecordBurst: {count: 5}\n      eventTime: {lateness: 5s}\n"
    )
    assert without_use(read_manifest(text)) == ("spec.sources[1].badRecordBurst",)


def test_every_key_of_the_table_is_one_of_the_manifest() -> None:
    for key in FOR_A_CLUSTER:
        block: type[BaseModel] | None = Manifest
        for part in key.replace("[]", "").split("."):
            assert block is not None, key
            fields = {field.alias or name: field for name, field in block.model_fields.items()}
            block = model_in(fields[part].annotation)
    assert {key for key in FOR_A_CLUSTER if "sources" not in key and "output" not in key} == set(SETTINGS)


def model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (model_in(part) for part in getattr(annotation, "__args__", ()))
    return next((found for found in inner if found is not None), None)
