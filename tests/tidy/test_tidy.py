"""House rules that no linter knows, each a small check with an input it must refuse and one it must let pass.

Goal: what the style says and what would otherwise be said in every review. Method: a rule is a function from a file's
path and text to the offending lines; it is run over every file of the repository (tracked, or new and not ignored), and
over its own two samples, so that a rule which stopped biting fails here. import-linter sees imports; these rules see
calls, names and words.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "jobs/src/biclique/"
OPERATOR = "operator/src/biclique_operator/"
PURE = (
    *(f"{PACKAGE}{part}/" for part in ("query", "plan", "core", "index", "kernels", "routing", "tiers")),
    *(
        f"{OPERATOR}{part}"
        for part in ("checked.py", "desired/", "differences.py", "observed.py", "policies/", "reconcile.py")
    ),
)
GENERATED = ("charts/biclique/files/crds/",)
THIS_FILE = "tests/tidy/test_tidy.py"

LINE_WIDTH_MAX = 120
FILE_LINES_MAX = 500

# A ratchet: files that were longer when the rule came, with their length. A number may fall and an entry may go;
# `test_the_ratchet_only_turns_one_way` refuses an entry that is wider than its file or no longer needed.
LONGER_FILES: dict[str, int] = {}

Offence = tuple[int, str]  # line, what is wrong and what to do instead


@dataclass(frozen=True)
class Rule:
    """`refused` and `passed` are samples (path, text): the check must bite on the first and spare the second."""

    name: str
    concerns: Callable[[str], bool]
    check: Callable[[str, str], Iterator[Offence]]
    refused: tuple[tuple[str, str], ...]
    passed: tuple[tuple[str, str], ...]


# --- which files -----------------------------------------------------------------------------------------------------


def is_python(path: str) -> bool:
    return path.endswith(".py")


def is_package(path: str) -> bool:
    return path.startswith((PACKAGE, OPERATOR)) and is_python(path)


def is_pure(path: str) -> bool:
    return path.startswith(PURE) and is_python(path)


def is_code(path: str) -> bool:
    """What people write by hand in a language with lines; prose and generated files keep their own width."""
    name = PurePosixPath(path).name
    if path.startswith(GENERATED):
        return False
    return name == "Makefile" or path == ".ci/run" or path.endswith((".py", ".sh", ".toml", ".yaml", ".yml"))


def is_ours(path: str) -> bool:
    """Every text, but for the licence, which is quoted, and locks, which have rules of their own or are of hashes."""
    return PurePosixPath(path).name not in {"LICENSE", "requirements.lock", "go.sum"}


def anywhere(path: str) -> bool:
    return True


# --- calls -----------------------------------------------------------------------------------------------------------


def imported_names(tree: ast.AST) -> dict[str, str]:
    """Local name → full dotted name, so that `from time import time as now` hides nothing."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.split(".")[0]] = (
                    alias.name if alias.asname else alias.name.split(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """`np.random.rand` → `numpy.random.rand`; a method of a local value → `.method`; else the empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name) and (not parts or node.id in names):
        return ".".join([names.get(node.id, node.id), *reversed(parts)])
    return f".{parts[0]}" if parts else ""


def calls(text: str) -> Iterator[tuple[ast.Call, str]]:
    tree = ast.parse(text)
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node, dotted(node.func, names)


BANNED_IN_PURE = (
    (r"datetime\.(datetime\.|date\.)?(now|utcnow|today)", "time is an argument"),
    (r"time\.\w+", "time is an argument"),
    (r"uuid\.uuid\d", "an id is an argument, or a hash of what it names"),
    (r"random\.\w+|numpy\.random\.\w+|secrets\.\w+|os\.urandom", "randomness is an argument: a seeded instance"),
    (r"print|input", "return a fact; the shell publishes it"),
    (r"open|io\.open|os\.open|\.(open|read_text|read_bytes|write_text|write_bytes)", "text comes in as an argument"),
    (r"os\.(getenv|system|popen)", "settings are read once, at the edge"),
)


def no_outside_world(path: str, text: str) -> Iterator[Offence]:
    for node, name in calls(text):
        for pattern, instead in BANNED_IN_PURE:
            if re.fullmatch(pattern, name):
                yield node.lineno, f"{name}() in the pure part: {instead}"
    tree = ast.parse(text)
    names = imported_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and dotted(node, names) in {"os.environ", "sys.argv"}:
            yield node.lineno, "os.environ in the pure part: settings are read once, at the edge"


def no_salted_hash(path: str, text: str) -> Iterator[Offence]:
    """Python salts the hash of a string per process: a tuple routed by it goes elsewhere after a restart."""
    tree = ast.parse(text)
    own = {
        call
        for method in ast.walk(tree)
        if isinstance(method, ast.FunctionDef) and method.name == "__hash__"
        for call in ast.walk(method)
    }
    for node in ast.walk(tree):
        is_hash = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "hash"
        if is_hash and node not in own:
            yield node.lineno, "hash() differs between processes: use xxhash or a written-out mix"


def no_evaluation(path: str, text: str) -> Iterator[Offence]:
    for node, name in calls(text):
        if name in {"eval", "exec", "compile", "__import__"}:
            yield node.lineno, f"{name}(): text of a user never becomes code"
        if any(word.arg == "allow_pickle" and getattr(word.value, "value", True) for word in node.keywords):
            yield node.lineno, "allow_pickle: Arrow IPC with a version and a checksum"
    for node in ast.walk(ast.parse(text)):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            if module.split(".")[-1] in {"pickle", "cloudpickle", "dill", "marshal", "shelve"}:
                yield node.lineno, f"{module}: Arrow IPC with a version and a checksum"


# --- shape -----------------------------------------------------------------------------------------------------------


def has_docstring(path: str, text: str) -> Iterator[Offence]:
    if not ast.get_docstring(ast.parse(text)):
        yield 1, "a module opens with what it is and what it promises"


def line_width(path: str, text: str) -> Iterator[Offence]:
    """A word to a tool at the end of a line cannot go anywhere else, so it is not counted; ruff does the same."""
    for number, line in enumerate(text.splitlines(), 1):
        width = len(re.sub(r"\s*# (type: ignore|noqa)\b.*", "", line))
        if width > LINE_WIDTH_MAX:
            yield number, f"{width} columns, more than {LINE_WIDTH_MAX}"


def file_length(path: str, text: str) -> Iterator[Offence]:
    lines = len(text.splitlines())
    allowed = LONGER_FILES.get(path, FILE_LINES_MAX)
    if lines > allowed:
        yield lines, f"{lines} lines, more than {allowed}: one idea per file"


def telling_name(path: str, text: str) -> Iterator[Offence]:
    for part in PurePosixPath(path).with_suffix("").parts:
        if part in {"utils", "util", "helpers", "helper", "common", "misc"}:
            yield 1, f"{part}: name the idea and put it in its layer"


def operator_is_no_package(path: str, text: str) -> Iterator[Offence]:
    if path == "operator/__init__.py":
        yield (
            1,
            "this would stand in for the standard library's operator; the package is operator/src/biclique_operator",
        )


# --- words -----------------------------------------------------------------------------------------------------------


def words(pattern: str, instead: str) -> Callable[[str, str], Iterator[Offence]]:
    def check(path: str, text: str) -> Iterator[Offence]:
        for number, line in enumerate(text.splitlines(), 1):
            if found := re.search(pattern, line):
                yield number, f"{found.group().strip()}: {instead}"

    return check


# This file passes its own rules: a pattern has a class of one letter in it, a sample is put together from halves.
LATER = "TO" + "DO"
MACHINE = "/wo" + "rk/main"
REGISTRY = "https://py" + "pi.org/simple"
OPTION = "--index" + "-url"

REGISTRIES = (
    r"py[p]i\.org|python[h]osted\.org|registry-1\.[d]ocker|[a]rtifactory|[j]frog|[d]evpi",
    r"--(extra-)?index-[u]rl|--find-[l]inks|--trusted-[h]ost|PIP_INDEX_[U]RL",
)

no_leftovers = words(r"\b(TO[D]O|FIX[M]E)\b", "do it now, or open an issue")
no_machine_path = words(r"(?<![\w.$}/*-])/([w]ork|[r]oot|[f]arm)/", "a path of one machine; take it from an argument")
no_registry = words("(?i)" + "|".join(REGISTRIES), "which registry serves a package is the machine's affair")
no_host_in_lock = words(r"://|^\s*--(?!hash=)", "a lock names packages, versions and hashes, and no place")


RULES = (
    Rule(
        "the pure part calls neither clock, randomness, files nor settings",
        is_pure,
        no_outside_world,
        refused=tuple(
            (PURE[0] + "a.py", text)
            for text in (
                "import datetime\ndatetime.datetime.now()",
                "from datetime import datetime as d\nd.utcnow()",
                "import time\ntime.time()",
                "from time import monotonic as tick\ntick()",
                "import uuid\nuuid.uuid4()",
                "import random\nrandom.random()",
                "import numpy as np\nnp.random.default_rng()",
                "print('x')",
                "open('x')",
                "def f(path):\n    return path.read_text()",
                "import os\nos.environ['A']",
                "from os import environ\nenviron.get('A')",
            )
        ),
        passed=(
            (
                PURE[0] + "a.py",
                "import random\ndef f(rng: random.Random, now_ms: int):\n    return rng.random() + now_ms",
            ),
            (PURE[0] + "a.py", "import numpy as np\ndef f(rng: np.random.Generator):\n    return rng.integers(3)"),
            (PURE[0] + "a.py", "def f(window):\n    return window.time() + window.now()"),
        ),
    ),
    Rule(
        "the pure part never routes or names by a salted hash",
        is_pure,
        no_salted_hash,
        refused=((PURE[0] + "a.py", "def f(key):\n    return hash(key) % 4"),),
        passed=((PURE[0] + "a.py", "class A:\n    def __hash__(self):\n        return hash(self.key)"),),
    ),
    Rule(
        "the package evaluates no text and unpickles nothing",
        is_package,
        no_evaluation,
        refused=tuple(
            (PACKAGE + "a.py", text)
            for text in (
                "eval('1')",
                "exec('1')",
                "import pickle",
                "from pickle import loads",
                "from pyspark import cloudpickle as c\nimport pyspark.cloudpickle",
                "import numpy as np\nnp.load('x', allow_pickle=True)",
            )
        ),
        passed=((PACKAGE + "a.py", "import re\nre.compile('x')\nresidual.eval(rows)"),),
    ),
    Rule(
        "every module of the package says what it is",
        is_package,
        has_docstring,
        refused=((PACKAGE + "a.py", "x = 1"), (PACKAGE + "a.py", "")),
        passed=((PACKAGE + "a.py", '"""Says."""\nx = 1'),),
    ),
    Rule(
        "lines fit the width",
        is_code,
        line_width,
        refused=(
            ("a.py", "x" * (LINE_WIDTH_MAX + 1)),
            ("a.py", "x" * (LINE_WIDTH_MAX + 1) + "  # type: ignore[misc]"),
            ("Makefile", "é" * (LINE_WIDTH_MAX + 1)),
        ),
        passed=(("a.py", "é" * LINE_WIDTH_MAX), ("a.py", "x" * LINE_WIDTH_MAX + "  # type: ignore[misc]")),
    ),
    Rule(
        "files are short enough for one idea",
        is_python,
        file_length,
        refused=(("a.py", "x\n" * (FILE_LINES_MAX + 1)),),
        passed=(("a.py", "x\n" * FILE_LINES_MAX),),
    ),
    Rule(
        "no file is called after nothing",
        is_python,
        telling_name,
        refused=((PACKAGE + "utils.py", ""), (PACKAGE + "common/a.py", ""), ("tests/unit/helpers.py", "")),
        passed=((PACKAGE + "core/uncommon.py", ""),),
    ),
    Rule(
        "operator/ is no package",
        anywhere,
        operator_is_no_package,
        refused=(("operator/__init__.py", ""),),
        passed=(("operator/src/biclique_operator/__init__.py", ""),),
    ),
    Rule(
        "nothing is left for later",
        is_ours,
        no_leftovers,
        refused=(("a.py", f"# {LATER}: more"), ("docs/a.md", f"{LATER}")),
        passed=(("a.py", "todos = 1"),),
    ),
    Rule(
        "no path of one machine",
        is_ours,
        no_machine_path,
        refused=(("a.md", f"see {MACHINE}"), ("a.sh", f'cd "{MACHINE}/x"'), ("a.py", f"X={MACHINE}")),
        passed=(("a.md", "/opt/spark" + MACHINE), ("a.md", "the frame" + MACHINE), ("a.sh", '"$HOME' + MACHINE + '"')),
    ),
    Rule(
        "no registry's name",
        is_ours,
        no_registry,
        refused=(("Makefile", f"pip install {OPTION} x"), ("a.md", REGISTRY)),
        passed=(("Makefile", "pip install --require-hashes -r requirements.lock"),),
    ),
    Rule(
        "the locks name no place",
        lambda path: PurePosixPath(path).name == "requirements.lock",
        no_host_in_lock,
        refused=(("requirements.lock", f"{OPTION} {REGISTRY}"), ("requirements.lock", "a @ git+https://example.com/a")),
        passed=(("requirements.lock", "a==1 \\\n    --hash=sha256:00"),),
    ),
)


# --- the tests -------------------------------------------------------------------------------------------------------


@cache
def repository() -> dict[str, str]:
    """Path → text of every file that is tracked or would be added. A file that is no text is not ours to judge."""
    listing = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    paths = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True).stdout.decode().split("\0")
    texts: dict[str, str] = {}
    for path in sorted(set(paths) - {""}):
        try:
            texts[path] = (ROOT / path).read_text(encoding="utf-8")
        except (FileNotFoundError, IsADirectoryError, UnicodeDecodeError):
            continue  # deleted and not yet committed, a submodule, or a picture
    return texts


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_repository_keeps(rule: Rule) -> None:
    offences = [
        f"{path}:{line}: {what}"
        for path, text in repository().items()
        if rule.concerns(path)
        for line, what in rule.check(path, text)
    ]
    assert not offences, "\n".join(["", *offences])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_rule_bites_and_spares(rule: Rule) -> None:
    for path, text in rule.refused:
        assert rule.concerns(path)
        assert list(rule.check(path, text)), f"let pass: {text!r}"
    for path, text in rule.passed:
        assert not list(rule.check(path, text)), f"refused: {text!r}"


def ratchet_offences(longer: dict[str, int], lengths: dict[str, int]) -> list[str]:
    """An entry is needed, and exactly as wide as its file: whoever shortens the file takes the slack away."""
    return [
        f"{path}: listed with {listed}, has {lengths.get(path, 0)} lines"
        for path, listed in longer.items()
        if listed <= FILE_LINES_MAX or lengths.get(path, 0) != listed
    ]


def test_the_ratchet_only_turns_one_way() -> None:
    lengths = {path: len(text.splitlines()) for path, text in repository().items()}
    assert not ratchet_offences(LONGER_FILES, lengths)
    assert not ratchet_offences({"a.py": 900}, {"a.py": 900})
    assert ratchet_offences({"a.py": 900}, {"a.py": 899}), "slack must go"
    assert ratchet_offences({"a.py": 499}, {"a.py": 499}), "an entry that is not needed must go"
    assert ratchet_offences({"gone.py": 900}, {}), "an entry without a file must go"


def test_the_repository_is_seen() -> None:
    """A listing that came back empty would make every rule above true."""
    assert {"Makefile", "pyproject.toml", THIS_FILE, PACKAGE + "__init__.py"} <= repository().keys()
    assert all(any(path.startswith(part) for path in repository()) for part in PURE)
