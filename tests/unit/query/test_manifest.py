"""The manifest as a whole: what it holds, its schema for the CRD, and that no text brings it down."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import yaml

from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from biclique.query.expression import Literal
from biclique.query.manifest import Manifest, read_manifest
from biclique.query.model import Files, PlanHints

FOLDER = Path(__file__).parent
EVERY_BLOCK = (FOLDER / "positive" / "every-block.yaml").read_text(encoding="utf-8")
SMALLEST = (FOLDER / "positive" / "full-history.yaml").read_text(encoding="utf-8")
DAMAGES = 600
SIGNS = "{}[]:,-#&*!|>'\"%@` \n\t0a~?<é\x00"


def test_every_block_is_kept_in_whole_numbers() -> None:
    spec = read_manifest(EVERY_BLOCK, "/somewhere").spec
    assert (spec.joiners.min_replicas, spec.joiners.max_replicas, spec.joiners.memory) == (1, 8, 2 << 30)
    assert (spec.tiers.cpu, spec.tiers.memory, spec.tiers.executors) == (500, 1 << 30, 1)
    assert (spec.scaling.policy, spec.scaling.period) == ("twoPhase", 60_000_000)
    assert spec.state.redis is not None and spec.state.redis.url == "redis://redis:6379/0"
    assert (spec.topics.partitions, spec.topics.replication, spec.topics.create_output) == (4, 3, False)
    assert read_manifest(EVERY_BLOCK, "/somewhere").folder == "/somewhere"


def test_without_the_optional_blocks_the_defaults_stand() -> None:
    assert compile_manifest(SMALLEST).hints == PlanHints()
    assert read_manifest(SMALLEST).spec.scaling.policy == "none"


def test_json_is_yaml_and_means_the_same() -> None:
    as_json = json.dumps(yaml.safe_load(EVERY_BLOCK))
    assert compile_manifest(as_json) == compile_manifest(EVERY_BLOCK)


def test_json_may_escape_what_is_beyond_16_bits() -> None:
    manifest = yaml.safe_load(SMALLEST)
    manifest["spec"]["sql"] = "SELECT a.v, '😀' AS smile FROM a JOIN b ON a.k = b.k"
    found = compile_manifest(json.dumps(manifest, ensure_ascii=True)).items[1].value
    assert isinstance(found, Literal) and found.value == "😀"


def test_a_manifest_that_kubernetes_gives_back_is_taken() -> None:
    added = {
        "labels": {"team": "joins"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "uid": "2f6c",
        "generation": 3,
        "creationTimestamp": "2026-03-01T00:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
    }
    manifest = yaml.safe_load(SMALLEST)
    manifest["metadata"] |= added
    assert compile_manifest(json.dumps(manifest)) == compile_manifest(SMALLEST)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(QueryError, match="no text"):
        compile_manifest(SMALLEST.replace("smallest", '"\\ud83d"'))


def test_no_control_character_reaches_the_sentence() -> None:
    with pytest.raises(QueryError) as caught:
        compile_manifest(SMALLEST.replace("data/b", '"data/\\e[2J\\n"'), "/m", lambda path: path.endswith("a"))
    assert "data/?[2J?" in str(caught.value)


def test_what_kubernetes_adds_is_let_pass() -> None:
    metadata = "metadata: {name: smallest, uid: u, resourceVersion: '5'}\nstatus: {phase: Running}"
    added = SMALLEST.replace("metadata: {name: smallest}", metadata)
    assert added != SMALLEST and compile_manifest(added) == compile_manifest(SMALLEST)


def test_paths_begin_in_the_folder_of_the_manifest() -> None:
    source = compile_manifest(SMALLEST, "/manifests").sources[0].input
    assert isinstance(source, Files) and source.path == "/manifests/data/a"


def test_a_missing_input_is_asked_for_by_its_whole_path() -> None:
    asked: list[str] = []

    def exists(path: str) -> bool:
        asked.append(path)
        return not path.endswith("b")

    with pytest.raises(QueryError, match=r"line 11, spec\.sources\[1\]\.files\.path: .*?/m/data/b"):
        compile_manifest(SMALLEST, "/m", exists)
    assert asked == ["/m/data/a", "/m/data/b"]


def test_the_schema_for_a_crd_can_be_made() -> None:
    schema = Manifest.model_json_schema(by_alias=True)
    definitions = schema["$defs"]
    assert set(schema["properties"]) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert definitions["EventTimeSpec"]["properties"]["lateness"]["type"] == "string"
    assert definitions["SourceSpec"]["additionalProperties"] is False
    assert "schema" in definitions["SourceSpec"]["required"]


def damaged(rng: random.Random) -> str:
    text = rng.choice((EVERY_BLOCK, SMALLEST))
    for _ in range(rng.randrange(1, 4)):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.randrange(12))
        match rng.randrange(4):
            case 0:
                text = text[:start] + text[end:]
            case 1:
                text = text[:start] + "".join(rng.choice(SIGNS) for _ in range(3)) + text[end:]
            case 2:
                text = text[:start] + text[start:end] * 3 + text[end:]
            case 3:
                lines = text.split("\n")
                rng.shuffle(lines)
                text = "\n".join(lines) if rng.random() < 0.2 else text[:start] + rng.choice(lines) + text[start:]
    return text


def test_a_damaged_manifest_is_a_query_or_a_sentence() -> None:
    rng = random.Random(7)
    refused = 0
    for number in range(DAMAGES):
        text = damaged(rng)
        try:
            compile_manifest(text)
        except QueryError as error:
            refused += 1
            sentence, remedy = str(error), error.remedy
        except Exception as error:
            raise AssertionError(f"damage {number}: {text!r}") from error
        else:
            continue
        assert sentence.isprintable() and remedy and len(sentence) < 600, f"damage {number}: {sentence}"
    assert DAMAGES // 2 < refused < DAMAGES, refused
