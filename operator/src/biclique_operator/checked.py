"""What `biclique validate` says of a JoinQuery, in the same sentence; and what only a cluster asks beside it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from biclique.query.manifest import Spec, read_manifest
from biclique.query.model import Files, Kafka, Query
from biclique_operator.only_on_a_cluster import BROKERS, FILES, STORE

# Of the text that is checked here no line is known to whoever wrote the manifest; the key that follows it is.
LINE = re.compile(r"^line \d+, (?:column \d+: )?")
KEPT = 512  # checked texts: a look at an unchanged query compiles nothing


@dataclass(frozen=True)
class Checked:
    """A manifest that can run on a cluster, as text and as what follows from it."""

    text: str
    spec: Spec
    plan: Plan


@dataclass(frozen=True)
class Invalid:
    sentence: str


def manifest_text(name: str, spec: dict[str, Any]) -> str:
    """As it is checked and mounted. The API keeps no order of keys, so ours is by name."""
    document = {
        "apiVersion": "biclique.dev/v1alpha1",
        "kind": "JoinQuery",
        "metadata": {"name": name},
        "spec": spec,
    }
    return json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)


@lru_cache(maxsize=KEPT)
def check(text: str) -> Checked | Invalid:
    try:
        query = compile_manifest(text)
        _refuse_what_no_cluster_runs(query)
        return Checked(text, read_manifest(text).spec, make_plan(query))
    except QueryError as error:
        return Invalid(LINE.sub("", str(error)))


def _refuse_what_no_cluster_runs(query: Query) -> None:
    """In the API server's words, and at its places."""
    places = [f"spec.sources[{number}]" for number in range(len(query.sources))]
    ends = [source.input for source in query.sources]
    for place, end in zip([*places, "spec.output"], [*ends, query.output], strict=True):
        if isinstance(end, Files):
            problem, remedy = FILES
            raise QueryError(place, f"this block {problem}", remedy)
    assert isinstance(query.output, Kafka), "no files, so a topic"
    others = (end.bootstrap_servers for end in ends if isinstance(end, Kafka))
    for other in others:
        if other != query.output.bootstrap_servers:
            problem, remedy = BROKERS
            raise QueryError("spec", f"{problem}: {other} and {query.output.bootstrap_servers}", remedy)
    if query.redis is None and query.durable is None:
        raise QueryError("spec", *STORE)
