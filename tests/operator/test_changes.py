"""The table of docs/kubernetes.md, row by row: which change is followed in place, which rolls what, which is held, and
which is refused and touches nothing."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from biclique.query.manifest import Spec
from tests.operator.manifests import GROUPED, spec
from tests.operator.stage import Stage

PAGE = Path(__file__).parents[2] / "docs/kubernetes.md"
Raw = dict[str, Any]


def _source(**changes: Any) -> Raw:
    """The first source of two, changed; a block in it is added to."""
    sources = copy.deepcopy(spec()["sources"])
    for key, value in changes.items():
        sources[0][key] = {**sources[0].get(key, {}), **value} if isinstance(value, dict) else value
    return {"sources": sources}


SPELT_ANEW = (
    "select x.id as one, count(*) as many from orders x join offers y on x.price = y.price "
    "within 600 seconds group by x.id"
)


def _sql(old: str, new: str) -> Raw:
    assert old in GROUPED
    return {"sql": GROUPED.replace(old, new)}


def _of_pods(block: str, memory: str) -> tuple[Raw, ...]:
    """Each key of a pod, one by one."""
    values = {
        "memory": memory,
        "cpu": "150m",
        "image": "another",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "joins", "operator": "Exists"}],
    }
    return tuple({block: {key: value}} for key, value in values.items())


def _brokers(servers: str) -> Raw:
    sources = [{**one, "kafka": {**one["kafka"], "bootstrapServers": servers}} for one in spec()["sources"]]
    return {"sources": sources, "output": {"kafka": {"bootstrapServers": servers, "topic": "pairs"}}}


# First cell of a row -> a change for each thing that it names, the words in their order.
CHANGES: dict[str, tuple[Raw, ...]] = {
    "`scaling`, `joiners.minReplicas`, `joiners.maxReplicas`": (
        {"scaling": {"policy": "none"}},
        {"joiners": {"minReplicas": 1}},
        {"joiners": {"maxReplicas": 4}},
    ),
    "`topics.replication`, `topics.createOutput`": ({"topics": {"replication": 2}}, {"topics": {"createOutput": True}}),
    "`startingOffsets`": (_source(kafka={"startingOffsets": "latest"}),),
    "`eventTime.lateness`, `maxFutureSkew`, `idleAfter`": tuple(
        _source(eventTime={key: "7s"}) for key in ("lateness", "maxFutureSkew", "idleAfter")
    ),
    "`onBadRecord`, `badRecordBurst`": (_source(onBadRecord="drop"), _source(badRecordBurst={"count": 7})),
    "`kafka.format` of a source: from json to csv, or back": (_source(kafka={"format": "csv"}),),
    "`kafka.format` of a source: to arrow, or from it": (_source(kafka={"format": "arrow"}),),
    "`schema`: columns that the query does not use": (
        _source(schema="id BIGINT, price DOUBLE, at TIMESTAMP, note STRING"),
    ),
    "`sql`: spelling, aliases, names of result columns": ({"sql": SPELT_ANEW},),
    "`output.kafka.topic`, `output.kafka.format`": (
        {"output": {"kafka": {"topic": "others"}}},
        {"output": {"kafka": {"format": "arrow"}}},
    ),
    "`delivery`": ({"delivery": "atLeastOnce"},),
    "`state`": (
        {"state": {"redis": {"url": "redis://another:6379/0"}}},
        {"state": {"durable": {"s3": {"bucket": "joins"}}}},
        {"state": {"durable": {"volume": {"claimName": "joins"}}}},
    ),
    "`joiners.memory`, `cpu`, `image`, `nodeSelector`, `tolerations`": _of_pods("joiners", "3Gi"),
    **{
        f"`tiers.{tier}`": tuple({"tiers": each} for each in (*_of_pods(tier, "2Gi"), {tier: {"executors": 1}}))
        for tier in ("shuffler", "dispatcher", "merger")
    },
    "`tiers.memory`": ({"tiers": {"memory": "2Gi"}},),
    "`tiers.cpu`, `image`, `nodeSelector`, `tolerations`": tuple(
        each for each in _of_pods("tiers", "2Gi") if "memory" not in each["tiers"]
    ),
    "`tiers.executors`": ({"tiers": {"executors": 1}},),
    "`plan.transport`": ({"plan": {"transport": "tuples"}},),
    "`secretRef`": (
        _source(kafka={"secretRef": {"name": "kafka"}}),
        {"output": {"kafka": {"secretRef": {"name": "kafka"}}}},
    ),
    "`bootstrapServers`: other addresses of the same cluster": (_brokers("kafka-2:9092"),),
    "`joiners.replicas`": ({"joiners": {"replicas": 3}},),
    "`sources`: their order, one more or one less": (
        {"sources": spec()["sources"][::-1]},
        {"sources": [*spec()["sources"], {**spec()["sources"][0], "name": "more"}]}
        | _sql(" WITHIN", " JOIN more m ON m.price = o.price WITHIN"),
        {"sources": spec()["sources"][:1]} | _sql("offers f", "orders f"),
    ),
    "`sql`: predicates, filters, what is selected, grouped or counted": (
        _sql("o.price = f.price", "o.price = f.price AND o.id < f.id"),
        _sql("WITHIN", "WHERE o.id > 7 WITHIN"),
        {"sql": GROUPED.replace("o.id", "f.id")},
        _sql("COUNT(*)", "SUM(f.price)"),
    ),
    "`WITHIN`, `window`": (_sql("10 MINUTES", "11 MINUTES"), _source(window={"time": "11m"})),
    "`schema`: columns that the query uses": (_source(schema="id INT, price DOUBLE, at TIMESTAMP"),),
    "`eventTime.column`": (_source(eventTime={"column": None}),),
    "`kafka.topic` of a source": (_source(kafka={"topic": "others"}),),
    "`plan.strategy`, `plan.subgroups`": ({"plan": {"strategy": "hash"}}, {"plan": {"subgroups": {"o": 2}}}),
    "`topics.partitions`": ({"topics": {"partitions": 8}},),
}
EACH = [(row, change) for row, changes in CHANGES.items() for change in changes]

# Which tiers.
ROLLS = {
    "nothing": set(),
    "the shuffler, the dispatchers": {"shuffler", "dispatcher"},
    "the shuffler": {"shuffler"},
    "the dispatchers": {"dispatcher"},
    "the merger": {"merger"},
    "the shuffler, the dispatchers, the merger": {"shuffler", "dispatcher", "merger"},
    "the joiners": {"joiner"},
    "the joiners, the merger": {"joiner", "merger"},
    "every tier": {"shuffler", "dispatcher", "joiner", "merger"},
}


def rows() -> dict[str, str]:
    """First cell -> what happens."""
    text = PAGE.read_text(encoding="utf-8")
    table = text.split("## Changing a query", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^\| (.+?) \| (.+?) \|$", table, re.MULTILINE)
    return {change: happens for change, happens in found if not change.startswith(("change", "---"))}


def test_every_row_has_a_change() -> None:
    assert rows().keys() == CHANGES.keys()


def test_every_key_of_the_manifest_has_a_row() -> None:
    named = set(re.findall(r"[A-Za-z]+", " ".join(re.findall(r"`([^`]+)`", " ".join(rows())))))
    # A source's name is part of `sources`; suspending is in the table before this one; files are refused on a cluster.
    elsewhere = {"name", "suspend", "files"}
    assert set(keys_of(Spec)) - elsewhere - named == set()


def keys_of(model: type[BaseModel]) -> Iterator[str]:
    """Of blocks that are of one piece, their own; of others what is in them."""
    of_one_piece = {"scaling", "state", "window", "secretRef", "badRecordBurst", "tolerations", "files"}
    for field in model.model_fields.values():
        key = field.alias or ""
        parts = [part for part in (field.annotation, *get_args(field.annotation)) if isinstance(part, type)]
        blocks = [part for part in parts if issubclass(part, BaseModel)]
        if key in of_one_piece or not blocks:
            yield key
        else:
            for block in blocks:
                yield from keys_of(block)


@pytest.mark.parametrize(("row", "change"), EACH, ids=lambda part: str(part)[:60])
def test_what_the_page_says_happens(row: str, change: Raw) -> None:
    happens_as_said(rows()[row], Stage().is_running(sql=GROUPED), change)


def test_a_format_goes_back_as_it_went() -> None:
    """The other way of two rows."""
    for name, row in (("csv", "from json to csv, or back"), ("arrow", "to arrow, or from it")):
        stage = Stage().is_running(sql=GROUPED, **_source(kafka={"format": name}))
        happens_as_said(rows()[f"`kafka.format` of a source: {row}"], stage, _source(kafka={"format": "json"}))


def happens_as_said(happens: str, stage: Stage, change: Raw) -> None:
    before = stage.pods()
    others = {k: v for k, v in stage.everything().items() if k[0] not in ("JoinQuery", "JoinSubgroup")}
    stage.change(**change)
    stage.settle()
    if happens.startswith("refused"):
        assert stage.condition("Degraded")[:2] == ("True", "ChangeRefused"), stage.condition("Degraded")
        message = stage.condition("Degraded")[2]
        assert "when this query began" in message and "which the state it has cannot follow" in message
        after = {k: v for k, v in stage.everything().items() if k[0] not in ("JoinQuery", "JoinSubgroup")}
        assert after == others, "nothing that runs was touched"
        return
    assert stage.condition("Degraded")[0] == "False", stage.condition("Degraded")
    if happens.startswith("held"):
        assert stage.condition("ScalingActive")[:2] == ("False", "NumberHeld")
        assert stage.pods() == before
        return
    tiers = ROLLS[happens.removeprefix("rolls ").split(";")[0]]
    seen: set[str] = set()
    for _ in range(40):
        away = before.keys() - stage.pods().keys()
        seen |= {name.rpartition("-")[0] for name in away}
        ready = sum(1 for one in [*stage.status["tiers"], *stage.status["subgroups"]] if one["state"] == "Running")
        assert ready >= len(before) - 1, "one at a time"
        stage.run_pods()
        stage.settle()
        if stage.condition("Ready")[0] == "True" and stage.condition("Progressing")[1] == "Stable":
            break
    drivers = {name.rpartition("-")[0] for name in before}
    assert len(drivers) == 5
    assert seen == {name for name in drivers if name.partition("-")[0] in tiers}
    assert stage.condition("Progressing")[:2] == ("False", "Stable")
    if tiers:
        assert stage.condition("Ready")[0] == "True"


def test_another_word_in_the_annotation_starts_each_tier_anew_one_at_a_time() -> None:
    stage = Stage().is_running()
    stage.annotate(restart="after the upgrade")
    seen = []
    for _ in range(4):
        stage.settle()
        (missing,) = [one for one in (*stage.status["tiers"], *stage.status["subgroups"]) if one["state"] != "Running"]
        seen.append(missing["name"])
        assert stage.condition("Progressing")[:2] == ("True", "Rolling")
        stage.run_pods()
        stage.settle()
    stage.run_pods()
    stage.settle()
    assert seen == ["shuffler", "dispatcher", "0L0", "0R0"]
    assert stage.alive() == ["dispatcher-2", "joiner-0l0-2", "joiner-0r0-2", "shuffler-2"]
    assert stage.condition("Progressing")[:2] == ("False", "Stable")
