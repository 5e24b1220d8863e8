"""What the images are called: ours by their own names, and a first look's Kafka and Redis, which stand in for public
ones where nothing can be pulled."""

from __future__ import annotations

from pathlib import Path

import yaml

from images.locks import ROOT

OURS, TRYOUT = ("spark", "operator"), ("kafka", "redis")
VALUES = ROOT / "charts" / "biclique" / "values.yaml"


def built_as(image: str, tag: str) -> str:
    return f"localhost/biclique-{image}:{tag}"


def asked_for_as(image: str, tag: str, values: Path = VALUES) -> str:
    """By pods. A stand-in under the very name that the chart has by default: a node that finds it there pulls nothing,
    and a first look needs no other values than anywhere."""
    if image in OURS:
        return built_as(image, tag)
    return in_full(yaml.safe_load(values.read_text(encoding="utf-8"))["tryout"][image]["image"])


def in_full(name: str) -> str:
    """As a node files it: without a registry it is Docker's."""
    first, slash, _ = name.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return name
    return f"docker.io/{name}" if slash else f"docker.io/library/{name}"
