"""What pydantic found wrong, said in our own words: one sentence about one place of the document.

An unknown key is told first, because it is the usual reason for a missing one; else the first in the order of the
lines.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from biclique.query.conversion import short
from biclique.query.document import Document, Path
from biclique.query.errors import QueryError
from biclique.query.scope import nearest

_EXPECTED = {
    "string_type": ("text", "put it in quotes if it is meant as text"),
    "int_type": ("a whole number", "write one such as 2"),
    "int_from_float": ("a whole number", "write one such as 2"),
    "float_type": ("a number", "write one without quotes"),
    "bool_type": ("true or false", "write one of them, without quotes"),
    "model_type": ("a block of keys", "write key: value lines below it"),
    "model_attributes_type": ("a block of keys", "write key: value lines below it"),
    "dict_type": ("a block of keys", "write key: value lines below it"),
    "tuple_type": ("a list", "write its members as lines that begin with -"),
}


def complaint_of(document: Document, error: ValidationError, model: type[BaseModel]) -> QueryError:
    # A list all of whose members are wrong is said to be empty, too: what is wrong with them is the news.
    found = [d for d in error.errors(include_url=False) if d["type"] != "too_short" or not d["input"]]
    first = min(found, key=lambda detail: _urgency(document, detail))
    path = _path(first)
    if first["type"] == "extra_forbidden":
        known = _known_keys(model, path[:-1])
        return document.error(
            path, f"the key {short(str(path[-1]))} is unknown", nearest(str(path[-1]), known, "keys here")
        )
    if first["type"] == "missing":
        around = document.place(path[:-1])
        remedy = f"add {_example(path)}"
        return QueryError(around, f"the key {path[-1]} is missing", remedy)
    problem, remedy = _sentence(first)
    return document.error(path, problem, remedy)


def _urgency(document: Document, detail: ErrorDetails) -> tuple[bool, tuple[int, int], bool]:
    path = _path(detail)
    while path and path not in document.places:
        path = path[:-1]
    return detail["type"] != "extra_forbidden", document.places.get(path, (0, 0)), detail["type"] == "missing"


def _path(detail: ErrorDetails) -> Path:
    return tuple(part for part in detail["loc"] if part != "[key]")


def _written(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict | list | tuple):
        return "a block of keys" if isinstance(value, dict) else "a list"
    return str(value).lower() if isinstance(value, bool) else f"`{short(str(value))}`"


def _sentence(detail: ErrorDetails) -> tuple[str, str]:
    kind, value, context = detail["type"], _written(detail["input"]), detail.get("ctx", {})
    if kind == "value_error":
        rest, _, remedy = str(context["error"]).partition("; ")
        subject = "this block" if isinstance(detail["input"], dict | BaseModel) else value
        return f"{subject} {rest}", remedy
    if kind in _EXPECTED:
        expected, remedy = _EXPECTED[kind]
        return f"{value} is not {expected}", remedy
    rule = _RULES.get(kind)
    if rule is not None:
        return rule(value, context)
    return f"{value} is not valid: {short(detail['msg'])}", "see docs/manifest.md"


def _of_choices(value: str, context: dict[str, Any]) -> tuple[str, str]:
    choices = str(context["expected"]).replace("'", "")
    if " or " not in choices:
        return f"{value} is not {choices}", f"write {choices}"
    return f"{value} is unknown", f"write {choices}"


def _of_pattern(value: str, context: dict[str, Any]) -> tuple[str, str]:
    return f"{value} does not have the form of this key", FORMS.get(
        str(context["pattern"]), f"it must match {context['pattern']}"
    )


FORMS = {
    r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$": "use 1 to 63 of a-z, 0-9 and -, with - neither first nor last",
    r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$": "use 1 to 253 of a-z, 0-9, - and ., with a-z or 0-9 first and last",
    r"^([^/.][^/]{0,254}(/[^/.][^/]{0,254}){0,15})?$": "write a folder inside of it, as kept or kept/joins",
    r"^[A-Za-z_][A-Za-z0-9_-]{0,62}$": "use a letter, then up to 62 letters, digits, _ and -",
    r"^[a-zA-Z0-9._-]{1,249}$": "use 1 to 249 letters, digits, dots, _ and -",
    r"^(rediss?|unix)://\S+$": "write a URL such as redis://redis:6379/0",
}

_RULES: dict[str, Callable[[str, dict[str, Any]], tuple[str, str]]] = {
    "literal_error": _of_choices,
    "string_pattern_mismatch": _of_pattern,
    "greater_than_equal": lambda value, context: (f"{value} is too small", f"write {context['ge']} or more"),
    "greater_than": lambda value, context: (f"{value} is too small", f"write more than {context['gt']:g}"),
    "less_than_equal": lambda value, context: (f"{value} is too great", f"write {context['le']:g} or less"),
    "string_too_short": lambda value, context: ("the text is empty", "write one"),
    "string_too_long": lambda value, context: (f"the text is longer than {context['max_length']}", "shorten it"),
    "too_short": lambda value, context: ("the list is empty", "add a member"),
    "too_long": lambda value, context: (f"the list has more than {context['max_length']} members", "shorten it"),
    "finite_number": lambda value, context: (f"{value} is no finite number", "write one"),
}

_EXAMPLES = {
    "apiVersion": "apiVersion: biclique.dev/v1alpha1",
    "kind": "kind: JoinQuery",
    "metadata": "metadata: {name: my-query}",
    "name": "name: a-name",
    "schema": 'schema: "id BIGINT, price DOUBLE"',
    "sql": "sql: SELECT ... FROM ... JOIN ... ON ...",
    "output": "output: {files: {path: out, format: parquet}}",
}


def _example(path: Path) -> str:
    return _EXAMPLES.get(str(path[-1]), f"{path[-1]}: ...")


def _known_keys(model: type[BaseModel], path: Path) -> list[str]:
    """The keys that the model has where the path leads."""
    current: type[BaseModel] | None = model
    for part in path:
        if isinstance(part, int) or current is None:
            continue
        fields = {field.alias or name: field.annotation for name, field in current.model_fields.items()}
        current = _model_in(fields.get(part))
    return [field.alias or name for name, field in current.model_fields.items()] if current else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in typing.get_args(annotation):
        found = _model_in(part)
        if found is not None:
            return found
    return None
