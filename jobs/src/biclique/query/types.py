"""The value types of a query, and how each is held in memory.

| SQL type                       | Kind      | numpy values                                  |
|--------------------------------|-----------|-----------------------------------------------|
| TINYINT SMALLINT INT BIGINT    | INTEGER   | int8 int16 int32 int64 (`bits`)               |
| DOUBLE                         | DOUBLE    | float64                                       |
| DECIMAL(p, s), p at most 18    | DECIMAL   | int64, the unscaled number                    |
| BOOLEAN                        | BOOLEAN   | bool                                          |
| STRING                         | STRING    | pyarrow StringArray without nulls (UTF-8)     |
| DATE                           | DATE      | int32, days since 1970-01-01                  |
| TIMESTAMP                      | TIMESTAMP | int64, microseconds since 1970-01-01 UTC      |
| (only inside expressions)      | INTERVAL  | int64, microseconds                           |

Arithmetic on integers of any width is done and typed as BIGINT.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DECIMAL_DIGITS_MAX = 18  # an unscaled DECIMAL must fit into int64


class Kind(Enum):
    INTEGER = "INTEGER"
    DOUBLE = "DOUBLE"
    DECIMAL = "DECIMAL"
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"
    INTERVAL = "INTERVAL"


@dataclass(frozen=True, slots=True)
class Type:
    kind: Kind
    bits: int = 64  # INTEGER only: 8, 16, 32 or 64
    precision: int = 0  # DECIMAL only
    scale: int = 0  # DECIMAL only

    def __str__(self) -> str:
        if self.kind is Kind.INTEGER:
            return {8: "TINYINT", 16: "SMALLINT", 32: "INT", 64: "BIGINT"}[self.bits]
        if self.kind is Kind.DECIMAL:
            return f"DECIMAL({self.precision},{self.scale})"
        return str(self.kind.value)


TINYINT, SMALLINT, INT, BIGINT = (Type(Kind.INTEGER, bits) for bits in (8, 16, 32, 64))
DOUBLE, BOOLEAN, STRING = Type(Kind.DOUBLE), Type(Kind.BOOLEAN), Type(Kind.STRING)
DATE, TIMESTAMP, INTERVAL = Type(Kind.DATE), Type(Kind.TIMESTAMP), Type(Kind.INTERVAL)


def decimal(precision: int, scale: int) -> Type:
    return Type(Kind.DECIMAL, precision=precision, scale=scale)
