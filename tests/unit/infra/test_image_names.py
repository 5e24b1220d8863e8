"""What pods call the images: ours by our names, a first look's Kafka and Redis as the chart calls the public ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from images.locks import ROOT
from images.names import OURS, asked_for_as, built_as, in_full


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("redis:7.2-alpine", "docker.io/library/redis:7.2-alpine"),
        ("apache/kafka:4.3.1", "docker.io/apache/kafka:4.3.1"),
        ("registry.example/kafka:4", "registry.example/kafka:4"),
        ("localhost/kafka:dev", "localhost/kafka:dev"),
        ("mine:5000/kafka:dev", "mine:5000/kafka:dev"),
    ],
)
def test_a_node_files_a_name_in_full(name: str, full: str) -> None:
    assert in_full(name) == full


def test_a_stand_in_has_the_name_that_the_chart_asks_for(tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text("tryout: {kafka: {image: mine/kafka:1}}", encoding="utf-8")
    assert asked_for_as("kafka", "dev", values) == "docker.io/mine/kafka:1"
    assert asked_for_as("spark", "dev", values) == built_as("spark", "dev") == "localhost/biclique-spark:dev"


def test_the_values_name_what_is_built() -> None:
    values = yaml.safe_load((ROOT / "images" / "values.yaml").read_text(encoding="utf-8"))
    named = {"operator": values["image"], "spark": values["spark"]["image"]}
    assert {image: f"{told['repository']}:{told['tag']}" for image, told in named.items()} == {
        image: built_as(image, "dev") for image in OURS
    }
