"""What a tier says on stderr: machines get an object a line, people a sentence, and nobody a secret."""

from __future__ import annotations

import ast
import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from biclique.cli.stating import REFUSED, stating_errors
from biclique.hosts.logs import begin_logging, end_logging, logging_begun, without_secrets
from biclique.ports.refusals import Refused

PACKAGE = Path(__file__).resolve().parents[3] / "jobs" / "src" / "biclique"
LOG = logging.getLogger("biclique.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def ended() -> Iterator[None]:
    before = logging.getLogger().level
    yield
    end_logging()
    logging.getLogger().setLevel(before)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_object_a_line_with_whose_it_is_and_what_it_tells() -> None:
    stream = io.StringIO()
    begin_logging("q", "joiner", "0L0.1", stream)
    LOG.warning("a line\nof %s", "two", extra={"event": "unit.restart", "wait_s": 0.5, "why": 'a "reason"'})
    LOG.debug("not said")
    (line,) = lines(stream)
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "warning",
        "query": "q",
        "tier": "joiner",
        "unit": "0L0.1",
        "event": "unit.restart",
        "message": "a line\nof two",
        "wait_s": 0.5,
        "why": 'a "reason"',
    }


def test_a_later_begin_changes_whose_lines_they_are_and_doubles_none() -> None:
    stream = io.StringIO()
    begin_logging("q", "joiner", "0L0.1", stream)
    begin_logging("q", "joiner", "0L0.2", stream)
    LOG.info("here", extra={"event": "unit.started"})
    assert [line["unit"] for line in lines(stream)] == ["0L0.2"]


def test_a_person_reads_words() -> None:
    stream = Terminal()
    begin_logging("q", "dispatcher", "0", stream)
    LOG.warning("it starts again", extra={"event": "unit.restart", "wait_s": 0.5})
    assert stream.getvalue().partition(" ")[2] == "dispatcher 0: warning: it starts again\n"


@pytest.mark.parametrize("secret", ["hunter2", "a/b+c=="])
@pytest.mark.parametrize(
    "text",
    [
        "rediss://user:{}@host:6379/0 does not answer",
        "redis://:{}@host",
        "sasl.password={}, mechanism PLAIN",
        "'password': '{}'",
        "Authorization: Bearer {}",
        "OTEL_EXPORTER_OTLP_HEADERS=api-key={}",
    ],
)
def test_no_secret_is_written(text: str, secret: str) -> None:
    secret = secret.replace("/", "%2F") if "://" in text else secret
    stream = io.StringIO()
    begin_logging("q", "joiner", "", stream)
    said = text.format(secret)
    try:
        raise ValueError(said)
    except ValueError:
        LOG.exception(said, extra={"event": "x", "client_password": secret, "settings": {"url": said}})
    assert secret not in stream.getvalue()
    assert lines(stream)[0]["client_password"] == "***"


def test_what_is_no_secret_stays() -> None:
    text = "kafka:9092 of topic secrets, http://collector:4318/v1/traces, 3 tokens read"
    assert without_secrets(text) == text


def test_others_speak_once_a_minute() -> None:
    stream = io.StringIO()
    begin_logging("q", "joiner", "", stream)
    for _ in range(5):
        logging.getLogger("opentelemetry.exporter").warning("the collector is away")
        LOG.info("ours", extra={"event": "x"})
    events = [line["event"] for line in lines(stream)]
    assert events.count("opentelemetry.exporter") == 1
    assert events.count("x") == 5


def test_the_sentence_that_ends_a_tier_is_an_event_of_its_log() -> None:
    stream = io.StringIO()
    begin_logging("q", "joiner", "", stream)
    with pytest.raises(SystemExit) as end, stating_errors():
        raise Refused("topic q.shuffled is compacted: remove it")
    assert end.value.code == REFUSED
    (line,) = lines(stream)
    assert (line["event"], line["message"]) == ("tier.stopped", "topic q.shuffled is compacted: remove it")


def test_without_a_log_it_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert not logging_begun()
    with pytest.raises(SystemExit), stating_errors():
        raise Refused("no topic")
    assert capsys.readouterr().err == "biclique: no topic\n"


def calls_without_event(path: Path) -> list[str]:
    """`told = {"event": …}` in a variable is as good as the dictionary itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and _has_event(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = []
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "LOG"):
            continue
        extra = next((keyword.value for keyword in node.keywords if keyword.arg == "extra"), None)
        good = _has_event(extra) or (isinstance(extra, ast.Name) and extra.id in named)
        found += [] if good else [f"{path.name}:{node.lineno}"]
    return found


def _has_event(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Dict) and any(isinstance(k, ast.Constant) and k.value == "event" for k in node.keys)


def test_every_line_of_ours_names_its_event(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        'LOG.info("a")\nLOG.info("b", extra={"event": "b"})\nt = {"event": "c"}\nLOG.info("c", extra=t)\n'
    )
    assert calls_without_event(sample) == ["sample.py:1"]
    assert [call for path in sorted(PACKAGE.rglob("*.py")) for call in calls_without_event(path)] == []
