"""The definitions before a real API server: what it takes, what it refuses, and with which sentence.

Every good manifest of tests/unit/query is taken, once it names topics and a store as a cluster needs them. Every bad
one gets the answer in refusals.golden (UPDATE_GOLDEN=1 writes it anew): where it is one of our rules', it is the very
sentence of `biclique validate`; where the API server takes the manifest, the operator says that sentence later.
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, config

from biclique.query.document import read_document
from biclique.query.errors import QueryError
from biclique_operator.checked import LINE, Invalid, check, manifest_text
from biclique_operator.crd.definitions import GROUP, VERSION, definitions
from infra.cluster.binaries import NotBuilt, program
from infra.cluster.control_plane import api_server

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "tests/unit/query"
GOLDEN = Path(__file__).with_name("refusals.golden")
GOOD = sorted((MANIFESTS / "positive").glob("*.yaml"))
BAD = sorted((MANIFESTS / "negative").glob("*.yaml"))
EXAMPLES = sorted((ROOT / "examples").glob("*/*.yaml"))
LATER = "(taken; the operator says it)"
UNREADABLE = "(no document, so kubectl has nothing to send, or something else)"
SERVERS = "kafka:9092"
ESTABLISHED_S = 30.0

Manifest = dict[str, Any]
pytestmark = pytest.mark.slow


class Server:
    """An API server that knows our two resources."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._api = config.new_client_from_config(str(kubeconfig))
        self._objects = client.CustomObjectsApi(self._api)

    def define(self) -> None:
        extensions = client.ApiextensionsV1Api(self._api)
        for definition in definitions().values():
            extensions.create_custom_resource_definition(definition)
        names = [definition["metadata"]["name"] for definition in definitions().values()]
        limit = time.monotonic() + ESTABLISHED_S
        while True:
            found = [extensions.read_custom_resource_definition(name) for name in names]
            holding = [{c.type: c.status for c in each.status.conditions or ()} for each in found]
            if all(each.get("Established") == "True" for each in holding):
                assert all("NonStructuralSchema" not in each for each in holding), holding
                return
            assert time.monotonic() < limit, holding
            time.sleep(0.1)

    def create(self, manifest: Manifest, plural: str = "joinqueries", only_try: bool = False) -> str:
        """Its sentences about it; the empty text: it took it."""
        options = {"field_validation": "Strict"} | ({"dry_run": "All"} if only_try else {})
        try:
            self._objects.create_namespaced_custom_object(GROUP, VERSION, "default", plural, manifest, **options)
        except client.ApiException as refused:
            return str(json.loads(refused.body)["message"])
        return ""

    def replace(self, name: str, manifest: Manifest, only_try: bool = True) -> str:
        there = self._objects.get_namespaced_custom_object(GROUP, VERSION, "default", "joinqueries", name)
        sent = {**manifest, "metadata": there["metadata"], "status": {}}
        try:
            options = {"dry_run": "All"} if only_try else {}
            self._objects.replace_namespaced_custom_object(
                GROUP, VERSION, "default", "joinqueries", name, sent, field_validation="Strict", **options
            )
        except client.ApiException as refused:
            return str(json.loads(refused.body)["message"])
        return ""

    def tell(self, name: str, status: dict[str, Any], plural: str = "joinqueries") -> None:
        there = self._objects.get_namespaced_custom_object(GROUP, VERSION, "default", plural, name)
        self._objects.replace_namespaced_custom_object_status(
            GROUP, VERSION, "default", plural, name, {**there, "status": status}, field_validation="Strict"
        )

    def kubectl(self, *words: str, fails: bool = False) -> str:
        command = [str(program("kubectl")), "--kubeconfig", str(self.kubeconfig), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert bool(done.returncode) is fails, done.stderr
        return done.stderr if fails else done.stdout


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    try:
        program("kube-apiserver"), program("etcd"), program("kubectl")
    except NotBuilt as reason:
        pytest.skip(f"needs an API server: {reason}")
    with api_server(tmp_path_factory.mktemp("api")) as kubeconfig:
        server = Server(kubeconfig)
        server.define()
        yield server


# --- manifests -------------------------------------------------------------------------------------------------------


def on_a_cluster(manifest: Any) -> Any:
    """With topics for files, a store of checkpoints, and a name that is nobody else's."""
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    if not isinstance(spec, dict):
        return manifest
    for block in [*_listed(spec.get("sources")), spec.get("output")]:
        if isinstance(block, dict) and "files" in block and "kafka" not in block:
            files = block.pop("files")
            written = files.get("format", "json") if isinstance(files, dict) else "json"
            known = {"parquet": "arrow", "json": "json"} if block is spec.get("output") else {"parquet": "arrow"}
            text = known.get(written, "json" if written == "csv" and block is spec.get("output") else written)
            block["kafka"] = {"bootstrapServers": SERVERS, "topic": "a", "format": text}
    spec.setdefault("state", {"redis": {"url": "redis://redis:6379/0"}})
    return manifest


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


@pytest.mark.parametrize("path", [*GOOD, *EXAMPLES], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_good_manifest_is_taken(server: Server, path: Path) -> None:
    assert server.create(on_a_cluster(yaml.safe_load(path.read_text(encoding="utf-8"))), only_try=True) == ""


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_example_is_for_one_machine_or_for_a_cluster(server: Server, path: Path) -> None:
    manifest = yaml.safe_load(path.read_text(encoding="utf-8"))
    answer = server.create(manifest, only_try=True)
    with_files = any("files" in source for source in manifest["spec"]["sources"])
    assert ("this block has files, which pods do not see" in answer) is with_files
    assert with_files or answer == ""


def test_a_bad_manifest_gets_the_sentence_of_validate(server: Server) -> None:
    answers = {path.stem: _answer(server, path) for path in BAD}
    shown = "".join(f"{name}: {answer}\n" for name, answer in answers.items())
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(shown, encoding="utf-8")
    assert shown == GOLDEN.read_text(encoding="utf-8")


def test_our_rules_say_what_validate_says() -> None:
    """Of the golden answers: a rule's is the problem and the remedy of the sentence, after the same place."""
    answers = dict(line.split(": ", 1) for line in GOLDEN.read_text(encoding="utf-8").splitlines())
    assert answers.keys() == {path.stem for path in BAD}
    of_rules = {name: answer for name, answer in answers.items() if answer.startswith("rule ")}
    assert len(of_rules) >= 25
    for name, answer in of_rules.items():
        sentence = (MANIFESTS / "negative" / f"{name}.txt").read_text(encoding="utf-8").strip()
        assert answer.split(": ", 1)[1] in sentence, name


# What they complain of is files, in whose place topics stand here.
OF_FILES = {"event-time-of-files-missing", "file-missing", "output-inside-input"}


def test_the_operator_says_what_validate_says_where_the_server_cannot() -> None:
    """But for a line of a file that the operator has never seen."""
    answers = dict(line.split(": ", 1) for line in GOLDEN.read_text(encoding="utf-8").splitlines())
    later = {name for name, answer in answers.items() if answer == LATER} - OF_FILES
    assert len(later) >= 90
    for name in later:
        manifest: Any = on_a_cluster(read_document((MANIFESTS / "negative" / f"{name}.yaml").read_text("utf-8")).value)
        found = check(manifest_text(manifest["metadata"]["name"], manifest["spec"]))
        sentence = (MANIFESTS / "negative" / f"{name}.txt").read_text(encoding="utf-8").strip()
        assert isinstance(found, Invalid) and found.sentence == LINE.sub("", sentence), name


def _answer(server: Server, path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    try:
        manifest: Any = read_document(text).value
    except QueryError:
        return UNREADABLE
    answer = server.create(on_a_cluster(manifest), only_try=True)
    if not answer:
        return LATER
    sentence = path.with_suffix(".txt").read_text(encoding="utf-8").strip()
    problem = sentence.partition(": ")[2]
    if problem in answer:
        return f"rule of {_place(sentence)}: {problem}"
    return "schema: " + re.sub(r"\s+", " ", answer)[:300]


def _place(sentence: str) -> str:
    return sentence.partition(": ")[0].rpartition(", ")[2]


# --- what cannot be changed ------------------------------------------------------------------------------------------

BEGUN = """
apiVersion: biclique.dev/v1alpha1
kind: JoinQuery
metadata: {name: begun}
spec:
  sources:
    - name: orders
      schema: "id BIGINT, price DOUBLE, at TIMESTAMP, seen TIMESTAMP"
      eventTime: {column: at, lateness: 5s}
      window: {time: 10m}
      kafka: {bootstrapServers: "kafka:9092", topic: orders, format: json}
    - name: offers
      schema: "id BIGINT, low DOUBLE, high DOUBLE, at TIMESTAMP"
      kafka: {bootstrapServers: "kafka:9092", topic: offers}
  sql: SELECT o.id FROM orders o JOIN offers f ON o.price BETWEEN f.low AND f.high WITHIN 10 MINUTES
  plan: {strategy: biclique, subgroups: {orders: 2}}
  joiners: {replicas: 1, maxReplicas: 4}
  state: {redis: {url: "redis://redis:6379/0"}}
  output: {kafka: {bootstrapServers: "kafka:9092", topic: pairs}}
"""
CANNOT_FOLLOW = "which the state it has cannot follow; restore it, or give the query a new name to begin anew"


def changed(path: str, value: Any) -> Manifest:
    """`path`: as sources.0.kafka.topic; None removes."""
    manifest = copy.deepcopy(yaml.safe_load(BEGUN))
    *around, last = path.split(".")
    block: Any = manifest["spec"]
    for key in around:
        block = block[int(key)] if key.isdigit() else block.setdefault(key, {})
    key = int(last) if last.isdigit() else last
    if value is None:
        del block[key]
    else:
        block[key] = value
    return manifest


ORDERS, OFFERS = yaml.safe_load(BEGUN)["spec"]["sources"]
REFUSED = (
    (
        "sources",
        [OFFERS, ORDERS],
        "spec.sources: it was `orders, offers` when this query began and is `offers, orders` now",
    ),
    ("sources.1.name", "bids", "spec.sources: it was `orders, offers` when this query began and is `orders, bids` now"),
    (
        "sources.0.kafka.topic",
        "others",
        "spec.sources[].kafka.topic: it was `orders, offers` when this query began and is",
    ),
    ("sources.1.kafka.format", "arrow", "spec.sources[].kafka.format: it was `one row a message, one row a message`"),
    (
        "sources.0.eventTime.column",
        "seen",
        "spec.sources[].eventTime.column: it was `at, (the record's own time)` when",
    ),
    ("sources.0.eventTime.column", None, "spec.sources[].eventTime.column"),
    ("sources.0.window.time", "11m", "spec.sources[].window has changed since this query began"),
    ("sources.0.window", {"tuples": 10}, "spec.sources[].window has changed since this query began"),
    ("plan.strategy", "hash", "spec.plan.strategy: it was `biclique` when this query began and is `hash` now"),
    ("plan.subgroups.orders", 3, "spec.plan.subgroups has changed since this query began"),
    ("topics.partitions", 8, "spec.topics.partitions has changed since this query began"),
)
FOLLOWED = (
    ("sources.0.eventTime.lateness", "6s"),
    ("sources.0.eventTime.column", "AT"),
    ("sources.0.kafka.format", "csv"),
    ("sources.0.kafka.startingOffsets", "latest"),
    ("sources.0.kafka.secretRef", {"name": "reader"}),
    ("sources.0.onBadRecord", "drop"),
    ("sources.0.window.time", "600s"),
    ("sources.0.window.time", "600000 ms"),
    ("sources.0.window", None),
    ("sources.1.window", {"time": "10m"}),
    ("plan.strategy", None),
    ("plan.subgroups", None),
    ("plan.subgroups.offers", 1),
    ("plan.transport", "tuples"),
    ("topics.partitions", 4),
    ("topics.replication", 1),
    ("joiners.memory", "4Gi"),
    ("joiners.replicas", 2),
    ("suspend", True),
    ("delivery", "atLeastOnce"),
    ("output.kafka.topic", "others"),
    ("state.redis.url", "redis://other:6379/0"),
)


@pytest.fixture(scope="module")
def begun(server: Server) -> str:
    manifest = yaml.safe_load(BEGUN)
    assert server.create(manifest) == ""
    for path, value, _ in REFUSED:
        assert server.replace("begun", changed(path, value)) == "", "nothing has begun yet"
    server.tell("begun", {"began": "2026-03-01T08:00:00Z"})
    return "begun"


@pytest.mark.parametrize(("path", "value", "sentence"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_state_cannot_follow_is_refused_once_it_has_begun(
    server: Server, begun: str, path: str, value: Any, sentence: str
) -> None:
    answer = server.replace(begun, changed(path, value))
    assert sentence in answer and CANNOT_FOLLOW in answer


@pytest.mark.parametrize(("path", "value"), FOLLOWED, ids=lambda value: str(value)[:30])
def test_what_it_can_follow_is_taken(server: Server, begun: str, path: str, value: Any) -> None:
    assert server.replace(begun, changed(path, value)) == ""


# --- what kubectl shows and does -------------------------------------------------------------------------------------


def ready(status: str = "True") -> dict[str, Any]:
    told = {"reason": "Running", "message": "all of it runs", "lastTransitionTime": "2026-03-01T08:00:00Z"}
    return {"type": "Ready", "status": status, "observedGeneration": 1, **told}


FIGURES = {"units": "3/4", "rate": "12k/s", "lag": "0", "state": "1.2Gi"}


def test_kubectl_shows_the_columns(server: Server) -> None:
    manifest = yaml.safe_load(BEGUN) | {"metadata": {"name": "shown"}}
    assert server.create(manifest) == ""
    server.tell("shown", {"conditions": [ready()], "strategy": "biclique", "observedGeneration": 1, **FIGURES})
    header, row = server.kubectl("get", "jq", "shown").splitlines()
    assert header.split() == ["NAME", "READY", "STRATEGY", "UNITS", "RATE", "LAG", "STATE", "AGE"]
    assert row.split()[:7] == ["shown", "True", "biclique", "3/4", "12k/s", "0", "1.2Gi"]
    header, row = server.kubectl("get", "joinqueries", "shown", "-o", "wide").splitlines()
    assert header.split()[8:] == ["REASON", "MESSAGE"] and row.endswith("Running   all of it runs")
    for category in ("streaming", "biclique"):
        assert "joinquery.biclique.dev/shown" in server.kubectl("get", category, "-o", "name").split()
    server.kubectl("wait", "--for=condition=Ready", "jq/shown", "--timeout=5s")
    assert "as CREATE TABLE" in server.kubectl("explain", "jq.spec.sources.schema").replace("as in CREATE", "as CREATE")


def subgroup(name: str, replicas: int = 2) -> Manifest:
    spec = {"query": "shown", "subgroup": "0L0", "replicas": replicas}
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": "JoinSubgroup", "metadata": {"name": name}, "spec": spec}


def test_kubectl_scales_a_subgroup(server: Server) -> None:
    assert server.create(subgroup("shown-0l0"), "joinsubgroups") == ""
    server.tell("shown-0l0", {"replicas": 2, "selector": "biclique.dev/subgroup=0L0", **FIGURES}, "joinsubgroups")
    server.kubectl("scale", "jsg/shown-0l0", "--replicas=3")
    found = json.loads(server.kubectl("get", "jsg", "shown-0l0", "-o", "json"))
    assert found["spec"]["replicas"] == 3 and found["metadata"]["generation"] == 2
    scale = json.loads(server.kubectl("get", "jsg", "shown-0l0", "--subresource=scale", "-o", "json"))
    assert scale["status"] == {"replicas": 2, "selector": "biclique.dev/subgroup=0L0"}
    assert "greater than or equal to 1" in server.kubectl("scale", "jsg/shown-0l0", "--replicas=0", fails=True)
    header, row = server.kubectl("get", "jsg", "shown-0l0").splitlines()
    assert header.split() == ["NAME", "QUERY", "SUBGROUP", "READY", "UNITS", "RATE", "LAG", "STATE", "AGE"]
    assert row.split()[:3] == ["shown-0l0", "shown", "0L0"]


def test_a_subgroup_stays_where_it_is(server: Server) -> None:
    assert server.create(subgroup("stays-0l0"), "joinsubgroups") == ""
    patch = json.dumps({"spec": {"query": "other"}})
    told = server.kubectl("patch", "jsg", "stays-0l0", "--type=merge", "-p", patch, fails=True)
    assert "a JoinSubgroup stays with its query" in told


@pytest.mark.parametrize("name", ["0X0", "L0", "0l0", "joiner"])
def test_a_subgroup_is_named_as_the_routing_table_names_it(server: Server, name: str) -> None:
    wrong = subgroup("wrong")
    wrong["spec"]["subgroup"] = name
    assert f"`{name}` does not have the form of this key" in server.create(wrong, "joinsubgroups", only_try=True)


# --- quantities ------------------------------------------------------------------------------------------------------

WRITE_MEMORY = "write one such as 512Mi or 2Gi"


@pytest.mark.parametrize(
    ("path", "value", "answer"),
    [
        ("joiners.memory", 2147483648, ""),
        ("joiners.memory", "2147483648", ""),
        ("joiners.memory", "1.5Gi", ""),
        ("joiners.memory", "1023Ki", f"`1023Ki` is not between 1Mi and 1024Ti; {WRITE_MEMORY}"),
        ("joiners.memory", "1025Ti", f"`1025Ti` is not between 1Mi and 1024Ti; {WRITE_MEMORY}"),
        ("joiners.memory", 1000, f"this is not between 1Mi and 1024Ti; {WRITE_MEMORY}"),
        ("joiners.memory", -5, f"this is no amount of memory; {WRITE_MEMORY}"),
        ("tiers.cpu", 2, ""),
        ("tiers.cpu", "0.5", ""),
        ("tiers.cpu", 0.5, "spec.tiers.cpu: Invalid value"),
        ("state.redis.secretRef", {}, ""),
        ("tiers.cpu", "250m", ""),
        ("tiers.cpu", "0m", "`0m` is no share of a processor; write one such as 500m or 2"),
        ("tiers.cpu", 0, "this is no share of a processor; write one such as 500m or 2"),
        ("tiers.merger.cpu", "two", "`two` is no share of a processor; write one such as 500m or 2"),
        ("scaling.period", "1.5 m", ""),
        ("scaling.period", "0m", "this block has a period of zero; write one such as 1m"),
        ("scaling.drainTimeout", "-0s", ""),
        ("scaling.drainTimeout", "36525d", ""),
        ("scaling.drainTimeout", "36526d", "`36526d` is longer than a hundred years; write a duration such as 10m"),
        ("scaling.drainTimeout", "soon", "`soon` is no duration; write a duration such as 10m (units: ms, s, m, h, d)"),
        ("scaling.drainTimeout", "10'm", "`10'm` is no duration"),
        ("plan.subgroups", {"orders": 0}, "greater than or equal to 1"),
    ],
)
def test_a_quantity_is_taken_or_told(server: Server, path: str, value: Any, answer: str) -> None:
    manifest = changed(path, value) | {"metadata": {"name": "quantity"}}
    told = server.create(manifest, only_try=True)
    assert answer in told if answer else not told


# --- what only a cluster asks for ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "answer"),
    [
        ("state", None, "no store of checkpoints is named; write state: {redis: {url: redis://...}}"),
        ("state", {"durable": {"s3": {"bucket": "joins"}}}, ""),
        (
            "sources.1.kafka.bootstrapServers",
            "other:9092",
            "bootstrapServers differ: other:9092 and kafka:9092; read and",
        ),
        ("output", {"files": {"path": "out"}}, "this block has files, which pods do not see; name a topic under kafka"),
        ("output.kafka.topic", None, "spec.output.kafka.topic: Required value"),
        ("outputs", {}, 'unknown field "spec.outputs"'),
    ],
)
def test_a_cluster_asks_for_more(server: Server, path: str, value: Any, answer: str) -> None:
    manifest = changed(path, value) | {"metadata": {"name": "more"}}
    told = server.create(manifest, only_try=True)
    assert answer in told if answer else not told
    if "; " in answer:
        found = check(manifest_text("more", manifest["spec"]))
        assert isinstance(found, Invalid), "where the definitions are somebody else's, it is the operator who says it"
        place, _, sentence = found.sentence.partition(": ")
        assert sentence.startswith(answer) and sentence in told and place in told


def test_a_name_is_one_that_topics_may_have(server: Server) -> None:
    manifest = yaml.safe_load(BEGUN) | {"metadata": {"name": "a.b"}}
    assert "`a.b` does not have the form of this key; use 1 to 63 of" in server.create(manifest, only_try=True)
