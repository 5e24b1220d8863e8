"""One YAML document as plain values, with the line and column of every key and value kept for the sentences about it.

YAML is read event by event with PyYAML's safe parser, and every bound is checked as it grows: bytes, depth, nodes (an
alias counts as what it stands for, so a bomb of aliases ends early). Keys are strings and stand once; one document
only; no tags, no merge keys. A scalar is what YAML 1.1 makes of it, but only null, true and false, decimal numbers
and strings exist here: dates stay text, and what YAML 1.1 would read as an octal or base-60 number is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from biclique.query.conversion import short
from biclique.query.errors import QueryError
from biclique.query.yaml_complaints import yaml_complaint

BYTES_MAX = 256 * 1024
DEPTH_MAX = 32
NODES_MAX = 20_000

Path = tuple[str | int, ...]
_INTEGER = re.compile(r"[-+]?(0|[1-9]\d{0,18})", re.ASCII)
_LONG = re.compile(r"[-+]?[1-9]\d{19,}", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\d{1,30}\.\d{0,30}|\.\d{1,30}|\d{1,30})([eE][-+]?\d{1,3})?", re.ASCII)


@dataclass(frozen=True)
class Document:
    value: Any
    places: dict[Path, tuple[int, int]] = field(repr=False)

    def place(self, path: Path) -> str:
        """`line 12, spec.sources[0].window`: the line of the key, or of the nearest thing around it that has one."""
        known = path
        while known and known not in self.places:
            known = known[:-1]
        line, column = self.places.get(known, (1, 1))
        return f"line {line}, {dotted(path)}" if path else f"line {line}, column {column}"

    def error(self, path: Path, problem: str, remedy: str = "") -> QueryError:
        return QueryError(self.place(path), problem, remedy)


def dotted(path: Path) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{short(part)}" if text else short(part)
    return text


def read_document(text: str) -> Document:
    if len(text.encode("utf-8", "replace")) > BYTES_MAX:
        raise QueryError("line 1, column 1", f"the manifest is longer than {BYTES_MAX // 1024} kB", "shorten it")
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._events: Iterator[Event] = iter(())
        self._places: dict[Path, tuple[int, int]] = {}
        self._anchors: dict[str, Any] = {}
        self._nodes = 0

    def document(self) -> Document:
        """Events are taken one by one, so that a bound stops the parser too: its own work grows with depth squared."""
        try:
            self._events = iter(yaml.parse(self._text, Loader=yaml.SafeLoader))
            return self._single_document()
        except yaml.MarkedYAMLError as error:
            raise yaml_complaint(error) from None
        except yaml.YAMLError:
            place, problem = "line 1, column 1", "a character that YAML does not allow"
        except (RecursionError, ValueError):
            place, problem = "line 1, column 1", "something that nests too deep or is no text"
        raise QueryError(place, f"this is no YAML: {problem}", "correct the indentation, quotes or brackets near it")

    def _single_document(self) -> Document:
        value: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._error(event, "a second document follows", "put one JoinQuery into a file")
                value = self._node(next(self._events), ())
        if not isinstance(value, dict):
            raise QueryError(
                "line 1, column 1", "the manifest is no mapping", "begin with apiVersion, kind, metadata and spec"
            )
        return Document(value, self._places)

    def _error(self, event: Event, problem: str, remedy: str) -> QueryError:
        line, column = _position(event)
        return QueryError(f"line {line}, column {column}", problem, remedy)

    def _count(self, event: Event, nodes: int = 1) -> None:
        self._nodes += nodes
        if self._nodes > NODES_MAX:
            raise self._error(
                event, f"the manifest has more than {NODES_MAX} values", "shorten it or use fewer aliases"
            )

    def _node(self, event: Event, path: Path) -> Any:
        self._places.setdefault(path, _position(event))
        if isinstance(event, AliasEvent):
            if event.anchor not in self._anchors:
                raise self._error(
                    event,
                    f"the alias *{short(str(event.anchor))} names nothing that stands before it",
                    "write the value",
                )
            value = self._anchors[event.anchor]
            self._count(event, _size(value))
            return value
        self._count(event)
        if len(path) > DEPTH_MAX:
            raise self._error(event, f"the manifest nests deeper than {DEPTH_MAX}", "write it flatter")
        if isinstance(event, ScalarEvent):
            value = self._scalar(event)
        elif isinstance(event, SequenceStartEvent):
            self._no_tag(event)
            value = []
            while not isinstance(inner := next(self._events), SequenceEndEvent):
                value.append(self._node(inner, (*path, len(value))))
        else:
            assert isinstance(event, MappingStartEvent)
            self._no_tag(event)
            value = self._mapping(path)
        if event.anchor:
            self._anchors[event.anchor] = value
        return value

    def _mapping(self, path: Path) -> dict[str, Any]:
        value: dict[str, Any] = {}
        while not isinstance(key_event := next(self._events), MappingEndEvent):
            if not isinstance(key_event, ScalarEvent):
                raise self._error(key_event, "a key is no string", "write a word as the key")
            self._count(key_event)
            key = key_event.value if key_event.style else self._plain_key(key_event)
            self._places[(*path, key)] = _position(key_event)
            if key in value:
                raise self._error(key_event, f"the key {short(key)} stands twice", "keep one of them")
            value[key] = self._node(next(self._events), (*path, key))
        return value

    def _plain_key(self, event: ScalarEvent) -> str:
        tag = _kind(event.value)
        if tag == "merge":
            raise self._error(event, "merge keys (<<) are not supported", "write the keys out")
        if tag not in {"str", "timestamp"}:
            raise self._error(event, f"the key {short(event.value) or 'null'} is no string", "put it in quotes")
        return str(event.value)

    def _no_tag(self, event: MappingStartEvent | SequenceStartEvent | ScalarEvent) -> None:
        if event.tag is not None:
            raise self._error(
                event,
                f"the tag {short(event.tag.replace('tag:yaml.org,2002:', '!!'))} is not supported",
                "write the value without a tag",
            )

    def _scalar(self, event: ScalarEvent) -> Any:
        self._no_tag(event)
        text = str(event.value)
        if event.style:  # quoted, or a block: text whatever it looks like
            return _whole(text)
        tag = _kind(text)
        if tag == "null":
            return None
        if tag == "bool":
            return text.lower() in {"yes", "true", "on"}
        if tag == "int":
            if _INTEGER.fullmatch(text):
                return int(text)
            if _LONG.fullmatch(text):
                raise self._error(event, f"the number {short(text)} has too many digits", "write 19 digits or fewer")
            raise self._error(event, f"YAML reads {short(text)} as a number that is not decimal", "put it in quotes")
        if tag == "float":
            if _FLOAT.fullmatch(text):
                return float(text)
            raise self._error(event, f"YAML reads {short(text)} as a number that is not decimal", "put it in quotes")
        return text


def _whole(text: str) -> str:
    """JSON escapes a character beyond 16 bits in two halves, which YAML leaves apart; a half alone is no text."""
    if all(not 0xD800 <= ord(character) <= 0xDFFF for character in text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16")


def _position(event: Event) -> tuple[int, int]:
    mark = event.start_mark
    assert mark is not None, "events that were parsed from text have marks"
    return mark.line + 1, mark.column + 1


def _kind(text: str) -> str:
    """What YAML 1.1 makes of a plain scalar: null, bool, int, float, merge, timestamp or str."""
    tag: str = yaml.resolver.Resolver().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return tag.removeprefix("tag:yaml.org,2002:")


def _size(value: Any) -> int:
    """Never deep and never big: what was anchored was counted and bounded when it was read."""
    if isinstance(value, dict):
        return 1 + sum(1 + _size(part) for part in value.values())
    if isinstance(value, list):
        return 1 + sum(_size(part) for part in value)
    return 1
