"""The chart as Helm renders it: a list of objects for some values, or Helm's refusal."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cluster.binaries import NotBuilt, program

CHART = Path(__file__).parents[2] / "charts/biclique"
RELEASE, NAMESPACE = "biclique", "biclique"
KUBERNETES = "1.34.4"

Object = dict[str, Any]


class Refused(Exception):
    """What Helm said."""


def helm(*words: str, values: Mapping[str, Any] | None = None) -> str:
    try:
        command = [str(program("helm")), *words]
    except NotBuilt as reason:
        pytest.skip(f"needs Helm: {reason}")
    if values is not None:
        command += ["--values", "-"]
    done = subprocess.run(command, input=json.dumps(values or {}), capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


@dataclass(frozen=True)
class Rendered:
    objects: tuple[Object, ...]

    def of_kind(self, kind: str) -> list[Object]:
        return [each for each in self.objects if each["kind"] == kind]

    def one(self, kind: str, name: str = "") -> Object:
        found = [each for each in self.of_kind(kind) if not name or each["metadata"]["name"] == name]
        assert len(found) == 1, f"{len(found)} objects {kind} {name} in {sorted(self.names())}"
        return found[0]

    def names(self) -> set[str]:
        return {f"{each['kind']}/{each['metadata']['name']}" for each in self.objects}

    def pods(self) -> Iterable[tuple[str, Object]]:
        """Name of what makes it, and its spec."""
        for each in self.objects:
            if each["kind"] == "Deployment":
                yield each["metadata"]["name"], each["spec"]["template"]["spec"]
            elif each["kind"] == "Pod":
                yield each["metadata"]["name"], each["spec"]


def rendered(values: Mapping[str, Any] | None = None, release: str = RELEASE, namespace: str = NAMESPACE) -> Rendered:
    return _rendered(json.dumps(values or {}, sort_keys=True), release, namespace)


@cache
def _rendered(values: str, release: str, namespace: str) -> Rendered:
    words = ("template", release, str(CHART), "--namespace", namespace, "--kube-version", KUBERNETES)
    text = helm(*words, values=json.loads(values))
    return Rendered(tuple(each for each in yaml.safe_load_all(text) if each))
