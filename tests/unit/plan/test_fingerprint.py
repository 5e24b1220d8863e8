"""Which keys of a manifest may change under a query that has begun: the table of docs/data-plane.md, row by row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from biclique.plan.fingerprint import changed, fingerprint
from biclique.plan.make import make_plan
from biclique.query.compile import compile_manifest

PAGE = Path(__file__).parents[3] / "docs" / "data-plane.md"
MANIFEST = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: q}
spec:
  sources:
    - name: r
      schema: "k INT, v DOUBLE, at TIMESTAMP, unused STRING"
      eventTime: {column: at, lateness: 1s, maxFutureSkew: 1m, idleAfter: 5s}
      kafka: {bootstrapServers: "one:9092", topic: r, format: json, startingOffsets: earliest, secretRef: {name: a}}
      onBadRecord: deadLetter
    - name: s
      schema: "k INT, v DOUBLE, at TIMESTAMP"
      kafka: {bootstrapServers: "one:9092", topic: s, format: json}
  sql: SELECT x.v AS xv, s.v FROM r x JOIN s ON x.k = s.k WHERE x.v > 0.1 WITHIN 1 MINUTE
  plan: {strategy: biclique, subgroups: {x: 2, s: 2}}
  joiners: {replicas: 2, memory: 1Gi}
  state: {redis: {url: "redis://one:6379/0"}}
  topics: {partitions: 4, replication: 1}
  delivery: exactlyOnce
  suspend: false
  output: {kafka: {bootstrapServers: "one:9092", topic: out, format: json}}
"""
FOLLOWED, REFUSED = "followed", "refused"
# What of the manifest above is replaced by what, and how the page calls it.
CASES = [
    ("`sources`: their order, one more or one less", "name: r\n", "name: t\n", REFUSED),
    ("`sql`: predicates, filters, what is selected, grouped or counted", "x.v > 0.1", "x.v > 0.1000000001", REFUSED),
    ("`sql`: predicates, filters, what is selected, grouped or counted", "SELECT x.v AS xv,", "SELECT x.k,", REFUSED),
    ("`sql`: predicates, filters, what is selected, grouped or counted", "SELECT x", "SELECT DISTINCT x", REFUSED),
    ("`sql`: spelling, aliases, names of result columns", "AS xv", "AS a", FOLLOWED),
    ("`sql`: spelling, aliases, names of result columns", "SELECT x.v", "select  x.V", FOLLOWED),
    ("`WITHIN`, `window`", "WITHIN 1 MINUTE", "WITHIN 2 MINUTES", REFUSED),
    ("`WITHIN`, `window`", "WITHIN 1 MINUTE", "", REFUSED),
    ("`schema`: columns that the query uses", "v DOUBLE, at TIMESTAMP, u", "v BIGINT, at TIMESTAMP, u", REFUSED),
    ("`schema`: columns that the query uses", "k INT, v DOUBLE, at T", "v DOUBLE, k INT, at T", REFUSED),
    ("`schema`: other columns", ", unused STRING", ", more BIGINT, still DATE", FOLLOWED),
    ("`eventTime.column`", "column: at, ", "", REFUSED),
    ("`eventTime.lateness`, `maxFutureSkew`, `idleAfter`", "lateness: 1s", "lateness: 10s", FOLLOWED),
    ("`eventTime.lateness`, `maxFutureSkew`, `idleAfter`", "maxFutureSkew: 1m", "maxFutureSkew: 2m", FOLLOWED),
    ("`eventTime.lateness`, `maxFutureSkew`, `idleAfter`", "idleAfter: 5s", "idleAfter: 1s", FOLLOWED),
    ("`kafka.topic` of a source", "topic: r,", "topic: other,", REFUSED),
    ("`kafka.format` of a source: from json to csv, or back", "s, format: json", "s, format: csv", FOLLOWED),
    ("`kafka.format` of a source: to arrow, or from it", "s, format: json", "s, format: arrow", REFUSED),
    ("`startingOffsets`, `secretRef` of a source", "Offsets: earliest", "Offsets: latest", FOLLOWED),
    ("`startingOffsets`, `secretRef` of a source", "secretRef: {name: a}", "secretRef: {name: b}", FOLLOWED),
    ("`bootstrapServers`: other addresses of the same cluster", "one:9092", "two:9092", FOLLOWED),
    ("`onBadRecord`", "onBadRecord: deadLetter", "onBadRecord: drop", FOLLOWED),
    ("`plan.strategy`, `plan.subgroups`", "subgroups: {x: 2, s: 2}", "subgroups: {x: 1, s: 2}", REFUSED),
    ("`plan.strategy`, `plan.subgroups`", "strategy: biclique, subgroups: {x: 2, s: 2}", "strategy: matrix", REFUSED),
    ("`plan.transport`: other columns may stay behind", "biclique, s", "biclique, transport: semijoin, s", REFUSED),
    ("`plan.transport`: the same ones may", "biclique, s", "biclique, transport: tuples, s", FOLLOWED),
    ("`joiners.replicas`", "replicas: 2", "replicas: 3", REFUSED),
    ("`topics.partitions`", "partitions: 4", "partitions: 5", REFUSED),
    ("`topics.replication`", "replication: 1", "replication: 3", FOLLOWED),
    ("`joiners.memory`, `suspend`, `delivery`", "memory: 1Gi", "memory: 2Gi", FOLLOWED),
    ("`joiners.memory`, `suspend`, `delivery`", "exactlyOnce", "atLeastOnce", FOLLOWED),
    ("`state.redis`", "one:6379/0", "two:6379/3", FOLLOWED),
    ("`output`: topic, format, Secret", "topic: out, format: json", "topic: elsewhere, format: arrow", FOLLOWED),
]  # fmt: skip


def fingerprint_of(manifest: str) -> dict[str, str]:
    return fingerprint(make_plan(compile_manifest(manifest)))


@pytest.mark.parametrize(("row", "old", "new", "verdict"), CASES, ids=[f"{row} {new}" for row, _, new, _ in CASES])
def test_a_change_is_followed_or_refused_as_the_page_says(row: str, old: str, new: str, verdict: str) -> None:
    assert old in MANIFEST
    changed_manifest = MANIFEST.replace(old, new)
    if new == "name: t\n":
        changed_manifest = changed_manifest.replace("FROM r x", "FROM t x")
    said = changed(fingerprint_of(MANIFEST), fingerprint_of(changed_manifest))
    assert (said is not None) == (verdict == REFUSED), said
    assert on_the_page()[row] == verdict


def test_the_page_has_no_row_that_is_not_tested() -> None:
    # Which cluster answers is not in a manifest: tests/dataplane/test_start_up.py.
    assert on_the_page().keys() - {row for row, *_ in CASES} == {"`bootstrapServers`: another cluster"}


def on_the_page() -> dict[str, str]:
    rows = re.findall(r"^\| (.+?) \| (followed|refused)\b.*\|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 10
    return dict(rows)


def test_the_sentence_names_the_key_both_values_and_the_remedy() -> None:
    said = changed(fingerprint_of(MANIFEST), fingerprint_of(MANIFEST.replace("partitions: 4", "partitions: 5")))
    assert said == (
        "spec.topics.partitions: it was `4` when this query began and is `5` now, which the state it has cannot "
        "follow; restore it, or give the query a new name to begin anew"
    )


def test_long_values_are_shown_where_they_differ() -> None:
    long = " AND ".join(f"x.k <> {n}" for n in range(40))
    then, now = (fingerprint_of(MANIFEST.replace("x.v > 0.1", f"{long} AND x.k <> {n}")) for n in (77, 78))
    said = changed(then, now)
    assert said is not None and len(said) < 600
    assert "77" in said and "78" in said


def test_a_key_that_came_or_went_is_seen() -> None:
    assert changed({"a": "1"}, {}) is not None
    assert changed({}, {"a": "1"}) is not None
    assert changed({"a": "1"}, {"a": "1"}) is None
