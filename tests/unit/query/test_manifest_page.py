"""docs/manifest.md shows the keys that there are: types, bounds and defaults from the models, the meaning from the
sentence below each key, an example from a manifest that compiles.

UPDATE_GOLDEN=1 writes the tables anew.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from biclique.cli import main, stating
from biclique.hosts.outputs import FOLDERS
from biclique.query import manifest, pod, quantities
from biclique.query.complaints import FORMS
from biclique.query.document import BYTES_MAX, DEPTH_MAX
from biclique.query.manifest import Manifest
from biclique.query.one_machine import FOR_A_CLUSTER
from biclique.query.quantities import QUANTITY

PAGE = Path(__file__).parents[3] / "docs" / "manifest.md"
POSITIVE = sorted((Path(__file__).parent / "positive").glob("*.yaml"))
BEGIN = "<!-- keys: made from query/manifest.py by UPDATE_GOLDEN=1 pytest tests/unit/query -->\n"
END = "<!-- end of keys -->"
SCHEMA = Manifest.model_json_schema(by_alias=True)
UNITS_US = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000))


# --- what the code says ----------------------------------------------------------------------------------------------


def meanings() -> dict[tuple[str, str], str]:
    """(class, field) → the sentence below it."""
    found = {}
    for node in ast.walk(ast.parse(Path(manifest.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            for field, below in zip(node.body, node.body[1:], strict=False):
                is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
                    found[node.name, field.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
    return found


MEANINGS = meanings()


def meaning(block: str, key: str) -> str:
    model: Any = getattr(manifest, block)
    name = next(name for name, field in model.model_fields.items() if (field.alias or name) == key)
    return next(MEANINGS[base.__name__, name] for base in model.__mro__ if (base.__name__, name) in MEANINGS)


def blocks(name: str = "Manifest", place: str = "") -> Iterator[tuple[str, str]]:
    """(class, where it stands) of every block, in order."""
    yield name, place
    for key, kind in properties(name):
        inner, suffix = reference(kind)
        if inner:
            yield from blocks(inner, f"{place}.{key}{suffix}" if place else f"{key}{suffix}")


def properties(block: str) -> Iterable[tuple[str, dict[str, Any]]]:
    body = SCHEMA if block == "Manifest" else SCHEMA["$defs"][block]
    return list(body["properties"].items())


def reference(kind: dict[str, Any]) -> tuple[str, str]:
    """The block that a value is, or a list of them."""
    if "$ref" in kind:
        return kind["$ref"].rpartition("/")[2], ""
    if "items" in kind:
        return reference(kind["items"])[0], "[]"
    for choice in kind.get("anyOf", []):
        if any(reference(choice)):
            return reference(choice)
    return "", ""


def takes(kind: dict[str, Any]) -> str:
    if QUANTITY in kind:
        return str(kind[QUANTITY])
    inner, suffix = reference(kind)
    if inner:
        return (
            f"a list of {kind['minItems']} to {kind['maxItems']}"
            if "maxItems" in kind
            else "a list"
            if suffix
            else "a block"
        )
    choices = [choice for choice in kind.get("anyOf", []) if choice.get("type") != "null"]
    if choices:
        return " or ".join(dict.fromkeys(takes(choice) for choice in choices))
    if "const" in kind:
        return f"`{kind['const']}`"
    if "enum" in kind:
        return ", ".join(f"`{value}`" for value in kind["enum"])
    match kind.get("type"):
        case "integer":
            return bounded("a whole number", kind)
        case "number":
            return bounded("a number", kind)
        case "boolean":
            return "`true`, `false`"
        case "object":
            return f"names, each with {takes(kind['additionalProperties'])}"
        case "string":
            return FORMS[kind["pattern"]].removeprefix("use ").removeprefix("write ") if "pattern" in kind else "text"
    return "anything"


def bounded(what: str, kind: dict[str, Any]) -> str:
    if "exclusiveMinimum" in kind:
        return f"{what} above {kind['exclusiveMinimum']:g}, up to {kind['maximum']:g}"
    return f"{what}, {kind['minimum']:,} to {kind['maximum']:,}" if "minimum" in kind else what


def default(kind: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    value = kind.get("default")
    if value is None or value in ([], {}, "") or isinstance(value, dict):
        return ""
    match takes(kind):
        case "duration" if not value:
            return "`0s`"
        case "duration":
            return next(f"`{value // size}{unit}`" for unit, size in UNITS_US if value % size == 0)
        case "memory":
            return f"`{value >> 30}Gi`" if value % (1 << 30) == 0 else f"`{value >> 20}Mi`"
        case "cpu":
            return f"`{value}m`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def examples() -> dict[str, str]:
    """Where a value stands → one that a manifest of positive/ gives it; every one of them compiles."""
    found: dict[str, str] = {}

    def walk(value: Any, place: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{place}.{key}" if place else key)
            found.setdefault(place, yaml.safe_dump(value, default_flow_style=True, width=1000, sort_keys=False).strip())
        elif isinstance(value, list):
            for inner in value:
                walk(inner, f"{place}[]")
        else:
            text = yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("\n...")
            found.setdefault(place, text)

    for path in POSITIVE:
        walk(yaml.safe_load(path.read_text(encoding="utf-8")), "")
    return found


# --- the page --------------------------------------------------------------------------------------------------------


def tables() -> str:
    standing: dict[str, list[str]] = {}
    for block, place in blocks():
        standing.setdefault(block, []).append(place)
    given = examples()
    return "\n".join(table(block, places, given) for block, places in standing.items())


def table(block: str, places: list[str], given: dict[str, str]) -> str:
    body = SCHEMA if block == "Manifest" else SCHEMA["$defs"][block]
    title = ", ".join(f"`{place}`" for place in places) if block != "Manifest" else "At the top"
    lines = [f"### {title}\n", "| key | takes | default | example | is |", "|---|---|---|---|---|"]
    for key, kind in properties(block):
        where = [f"{place}.{key}" if place else key for place in places]
        star = "*" if all(for_a_cluster(place) for place in where) else ""
        is_block = bool(reference(kind)[0])
        example = next((given[place] for place in where if place in given), "")
        shown = "" if is_block or not example else f"`{short(example)}`"
        cells = (
            f"`{key}`{star}",
            takes(kind),
            default(kind, key in body.get("required", ())),
            shown,
            meaning(block, key),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def for_a_cluster(place: str) -> bool:
    return any(place == key or place.startswith((f"{key}.", f"{key}[")) for key in FOR_A_CLUSTER)


def short(example: str) -> str:
    line = " ".join(example.split())
    return line if len(line) <= 48 else line[:45] + "..."


def test_the_tables_are_those_of_the_code() -> None:
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if os.environ.get("UPDATE_GOLDEN"):
        PAGE.write_text(before + BEGIN + "\n" + tables() + "\n" + END + after, encoding="utf-8")
        shown = "\n" + tables() + "\n"
    assert shown == "\n" + tables() + "\n"


def test_every_key_has_an_example_that_compiles() -> None:
    shown, found = examples(), set()
    keys = {(block, key) for block, _ in blocks() for key, kind in properties(block) if not reference(kind)[0]}
    for block, place in blocks():
        found |= {(block, key) for key, _ in properties(block) if (f"{place}.{key}" if place else key) in shown}
    of_kubernetes = {("Metadata", key) for key in ("namespace", "labels", "annotations")} | {("Manifest", "status")}
    assert keys - found == of_kubernetes


def test_the_bounds_of_the_text_are_those_of_the_code() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert f"{BYTES_MAX // 1024} kB, {DEPTH_MAX} levels deep" in page
    assert (quantities._MEMORY_MIN, quantities._MEMORY_MAX) == (
        1 << 20,
        1024 << 40,
    ) and "from `1Mi` to `1024Ti`" in page


def test_the_exit_codes_are_those_of_the_command() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## Exit codes")[2].partition("##")[0]
    ours = (stating.DONE, stating.USER_ERROR, stating.OUT_OF_MEMORY, stating.FAILED, stating.REFUSED)
    codes = (*ours, pod.OLD_COPY, stating.INTERRUPTED)
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)] == list(codes)
    assert [int(code) for code in re.findall(r"^\| (\d+) +\|", main.__doc__ or "", re.MULTILINE)] == list(codes)


def test_the_folders_are_those_of_the_engine() -> None:
    page = PAGE.read_text(encoding="utf-8").partition("## The output folder")[2]
    assert all(f"`{folder}/" in page for folder in FOLDERS if folder)
