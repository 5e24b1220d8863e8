"""The column list of a source, `id BIGINT NOT NULL, price DECIMAL(10,2)`, and the names of types, also for CAST.

FLOAT and REAL are read as DOUBLE: there is no narrower type here, and a value that was written as a float is one double
exactly. A DECIMAL has at most 18 digits, so that its unscaled value fits into 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from biclique.query.model import Field
from biclique.query.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)

COLUMNS_MAX = 1000
NAME_CHARACTERS_MAX = 128
RESERVED_NAMES = ("_result_id", "_id", "_ts", "_stamp")
DECIMAL_DEFAULT = (10, 0)  # DECIMAL without digits, as Spark reads it

TYPE_NAMES: dict[str, Type] = {
    "TINYINT": TINYINT,
    "BYTE": TINYINT,
    "SMALLINT": SMALLINT,
    "SHORT": SMALLINT,
    "INT": INT,
    "INTEGER": INT,
    "BIGINT": BIGINT,
    "LONG": BIGINT,
    "DOUBLE": DOUBLE,
    "FLOAT": DOUBLE,
    "REAL": DOUBLE,
    "BOOLEAN": BOOLEAN,
    "BOOL": BOOLEAN,
    "STRING": STRING,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "CHAR": STRING,
    "DATE": DATE,
    "TIMESTAMP": TIMESTAMP,
}
_DECIMALS = {"DECIMAL", "NUMERIC", "DEC"}
_LENGTHS = {"VARCHAR", "CHAR"}  # the length is read and not kept: a STRING has none
_ZONED = {"TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ", "DATETIME"}
_TOKEN = re.compile(r'\s*(?:(?P<name>[^\W\d][\w$]*)|"(?P<quoted>(?:[^"]|"")+)"|(?P<number>\d+)|(?P<sign>[(),]))')


class SchemaError(Exception):
    """A problem and a remedy; the caller knows the place."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(problem)


def type_named(name: str, parameters: Sequence[str] = ()) -> Type:
    """`DECIMAL`, ["10", "2"] → DECIMAL(10,2)."""
    word = name.upper()
    if word in _DECIMALS:
        return _decimal(word, parameters)
    type_ = TYPE_NAMES.get(word)
    if type_ is None:
        if word in _ZONED:
            raise SchemaError(f"there is no type {word}", "write TIMESTAMP, which is UTC unless a value names its zone")
        if re.fullmatch(r"DECIMAL\d+|U(TINY|SMALL|BIG)?INT|HUGEINT", word):
            raise SchemaError(f"there is no type {word}", "use BIGINT, or DECIMAL with at most 18 digits")
        known = ", ".join(
            ("TINYINT", "SMALLINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(p,s)", "BOOLEAN", "STRING", "DATE")
        )
        raise SchemaError(f"there is no type {_short(name)}", f"the types are {known}, TIMESTAMP")
    if parameters and not (word in _LENGTHS and len(parameters) == 1):
        raise SchemaError(f"{word} takes no parameters", f"write {word}")
    return type_


def _decimal(word: str, parameters: Sequence[str]) -> Type:
    if len(parameters) > 2 or not all(part.isascii() and part.isdigit() and len(part) < 10 for part in parameters):
        raise SchemaError(f"{word} takes digits and digits after the point", "write DECIMAL(10,2)")
    digits = [int(part) for part in parameters]
    precision = digits[0] if digits else DECIMAL_DEFAULT[0]
    scale = digits[1] if len(digits) == 2 else DECIMAL_DEFAULT[1]
    if precision > DECIMAL_DIGITS_MAX:
        raise SchemaError(
            f"DECIMAL({precision},{scale}) has more than {DECIMAL_DIGITS_MAX} digits",
            f"write DECIMAL({DECIMAL_DIGITS_MAX},{min(scale, DECIMAL_DIGITS_MAX)}) or DOUBLE",
        )
    if precision < 1 or scale > precision:
        raise SchemaError(
            f"DECIMAL({precision},{scale}) has more digits after the point than in all", "write DECIMAL(10,2)"
        )
    return decimal(precision, scale)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # name, quoted, number, sign
    text: str


def is_plain_name(name: str) -> bool:
    """Every format that is written can hold it: printable, neither empty nor padded, of bounded length."""
    return name.isprintable() and name == name.strip() and 0 < len(name) <= NAME_CHARACTERS_MAX


def parse_schema(text: str) -> tuple[Field, ...]:
    tokens = list(_tokens(text))
    fields: list[Field] = []
    seen: dict[str, str] = {}
    position = 0
    while True:
        field, position = _field(tokens, position)
        folded = field.name.casefold()
        if folded in seen:
            raise SchemaError(f"the columns {seen[folded]} and {field.name} have the same name", "rename one")
        if not is_plain_name(field.name):
            raise SchemaError(f"{_short(field.name)} cannot name a column", "use 1 to 128 printable characters")
        if folded in RESERVED_NAMES:
            raise SchemaError(f"the column name {field.name} is reserved", "rename the column")
        seen[folded] = field.name
        fields.append(field)
        if len(fields) > COLUMNS_MAX:
            raise SchemaError(f"there are more than {COLUMNS_MAX} columns", "list only those that the query needs")
        if position == len(tokens):
            return tuple(fields)
        if tokens[position] != _Token("sign", ","):
            problem = f"{_short(tokens[position].text)} follows the column {_short(field.name)}"
            raise SchemaError(problem, "write name TYPE [NOT NULL], with commas between")
        position += 1


def _field(tokens: Sequence[_Token], position: int) -> tuple[Field, int]:
    remedy = "write a list such as id BIGINT NOT NULL, price DECIMAL(10,2)"
    if position >= len(tokens) or tokens[position].kind not in {"name", "quoted"}:
        found = f"{_short(tokens[position].text)} stands where" if position < len(tokens) else "the list ends where"
        raise SchemaError(f"{found} a column name should be", remedy)
    name = tokens[position].text
    position += 1
    if position >= len(tokens) or tokens[position].kind != "name":
        raise SchemaError(f"the column {_short(name)} has no type", remedy)
    word = tokens[position].text
    position += 1
    parameters: list[str] = []
    if position < len(tokens) and tokens[position] == _Token("sign", "("):
        end = next((i for i in range(position, len(tokens)) if tokens[i] == _Token("sign", ")")), None)
        if end is None:
            raise SchemaError(f"the parenthesis after {_short(word)} is not closed", remedy)
        inside = tokens[position + 1 : end]
        if any((token.kind != "number") if i % 2 == 0 else (token.text != ",") for i, token in enumerate(inside)):
            raise SchemaError(f"the parameters of {_short(word)} are not numbers", "write DECIMAL(10,2)")
        parameters = [token.text for token in inside[::2]]
        position = end + 1
    try:
        type_ = type_named(word, parameters)
    except SchemaError as error:
        problem, fix = error.problem, error.remedy
    else:
        not_null = [token.text.upper() for token in tokens[position : position + 2] if token.kind == "name"]
        if not_null == ["NOT", "NULL"]:
            return Field(name, type_, nullable=False), position + 2
        if not_null[:1] == ["NULL"]:
            return Field(name, type_), position + 1
        return Field(name, type_), position
    raise SchemaError(f"the column {_short(name)}: {problem}", fix)


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    stripped = text.rstrip()
    while position < len(stripped):
        found = _TOKEN.match(stripped, position)
        if not found:
            raise SchemaError(
                f"{_short(stripped[position:].strip()[:20])} is not understood",
                "write name TYPE [NOT NULL], with commas between",
            )
        kind = str(found.lastgroup)
        token = str(found.group(kind))
        yield _Token(kind, token.replace('""', '"') if kind == "quoted" else token)
        position = found.end()


def _short(text: str) -> str:
    line = "".join(character if character.isprintable() else "?" for character in text)
    return line if len(line) <= 40 else line[:37] + "..."
