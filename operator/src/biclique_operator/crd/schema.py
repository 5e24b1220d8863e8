"""From a pydantic model to what the API server takes as its schema: structural, without references, described.

Bounds and choices are OpenAPI's own. Forms of texts are rules instead of patterns (rules.py), since the API server says
a rule's sentence, and of a pattern only the pattern. Defaults stand in the descriptions alone: a manifest stays as its
author wrote it, and a default that changes one day changes nothing that is stored.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from biclique.query.quantities import QUANTITY
from biclique_operator.crd.rule import rendered
from biclique_operator.crd.rules import BOUNDS, OF_BLOCKS, OF_KEYS, OF_QUANTITIES, form

SIZES_US = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000))
KEPT = ("type", "enum", "format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems")
KEPT_AS_KUBERNETES_HAS_IT = "x-kubernetes-"
TEXT_MAX = 4096  # of what has a rule, and no bound of its own: what a rule may cost is reckoned from it
DURATION_MAX = 64
Schema = dict[str, Any]


def schema_of(model: type[BaseModel]) -> Schema:
    document = model.model_json_schema(by_alias=True)
    return _block(model, document, document.get("$defs", {}))


def _block(model: type[BaseModel], body: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    properties = {}
    for name, field in model.model_fields.items():
        key = field.alias or name
        inner = _value(model, body["properties"][key], definitions) | BOUNDS.get((model.__name__, key), {})
        inner |= _with_rules(inner, OF_KEYS.get((model.__name__, key), ()))
        meaning = f"{meaning_of(model, name)}{_default(body['properties'][key])}"
        properties[key] = {"description": meaning, **inner}
    found: Schema = {"type": "object", "properties": properties}
    if body.get("required"):
        found["required"] = list(body["required"])
    return found | _with_rules(found, OF_BLOCKS.get(model.__name__, ()))


def _value(around: type[BaseModel], kind: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    if QUANTITY in kind:
        return _quantity(kind[QUANTITY])
    if "$ref" in kind:
        name = kind["$ref"].rpartition("/")[2]
        return _block(_model(around, name), definitions[name], definitions)
    if "anyOf" in kind:
        (choice,) = (choice for choice in kind["anyOf"] if choice.get("type") != "null")
        return _value(around, choice, definitions)
    if "const" in kind:
        return {"type": "string", "enum": [kind["const"]]}
    found = {key: value for key, value in kind.items() if key in KEPT or key.startswith(KEPT_AS_KUBERNETES_HAS_IT)}
    if "exclusiveMinimum" in kind:  # OpenAPI of that time: a flag beside the bound
        found |= {"minimum": kind["exclusiveMinimum"], "exclusiveMinimum": True}
    if "items" in kind:
        found["items"] = _value(around, kind["items"], definitions)
        found.setdefault("x-kubernetes-list-type", "atomic")
    if "additionalProperties" in kind:
        found["additionalProperties"] = _value(around, kind["additionalProperties"], definitions)
    if "pattern" in kind:
        found.setdefault("maxLength", TEXT_MAX)
        found |= _with_rules(found, form(kind["pattern"]))
    return found


def _quantity(name: str) -> Schema:
    found: Schema = (
        {"type": "string", "maxLength": DURATION_MAX} if name == "duration" else {"x-kubernetes-int-or-string": True}
    )
    return found | _with_rules(found, OF_QUANTITIES[name])


def _with_rules(found: Schema, rules: Any) -> Schema:
    if not rules:
        return {}
    return {"x-kubernetes-validations": [*found.get("x-kubernetes-validations", ()), *map(rendered, rules)]}


def _model(around: type[BaseModel], name: str) -> type[BaseModel]:
    """The class of that name, as the class around it sees it."""
    for base in around.__mro__:
        model = getattr(sys.modules[base.__module__], name, None)
        if isinstance(model, type) and issubclass(model, BaseModel):
            return model
    raise LookupError(name)


def meaning_of(model: type[BaseModel], field: str) -> str:
    """The sentence below a field."""
    for base in model.__mro__:
        if issubclass(base, BaseModel) and base is not BaseModel and field in (found := _meanings(base)):
            return found[field]
    raise LookupError(f"{model.__name__}.{field} has no sentence below it")


@cache
def _meanings(model: type[BaseModel]) -> dict[str, str]:
    (declared,) = ast.parse(inspect.getsource(model)).body
    assert isinstance(declared, ast.ClassDef)
    found = {}
    for field, below in zip(declared.body, declared.body[1:], strict=False):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            found[field.target.id] = " ".join(str(below.value.value).split())
    return found


def _default(kind: Mapping[str, Any]) -> str:
    value = kind.get("default")
    if value is None or value in ([], {}, "") or isinstance(value, dict):
        return ""
    return f" Default: {_written(value, kind.get(QUANTITY))}."


def _written(value: Any, quantity: str | None) -> str:
    match quantity:
        case "duration":
            return next(f"{value // size}{unit}" for unit, size in SIZES_US if value % size == 0) if value else "0s"
        case "memory":
            return f"{value >> 30}Gi" if value % (1 << 30) == 0 else f"{value >> 20}Mi"
        case "cpu":
            return f"{value}m"
    return str(value).lower() if isinstance(value, bool) else str(value)
