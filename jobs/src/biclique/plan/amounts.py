"""Numbers for people: three significant digits and a unit."""

from __future__ import annotations

THOUSANDS = (("G", 1e9), ("M", 1e6), ("k", 1e3))
SPANS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1_000))


def number(value: float) -> str:
    for name, size in THOUSANDS:
        if abs(value) >= size * 0.9995:
            return f"{value / size:.3g}{name}"
    return f"{value:.3g}"


def size(value: float) -> str:
    """Bytes."""
    amount = number(value)
    return f"{amount[:-1]} {amount[-1]}B" if amount[-1] in "kMG" else f"{amount} B"


def span(microseconds: int | None) -> str:
    """The longest unit that says it without a fraction; None: full history."""
    if microseconds is None:
        return "full history"
    for name, length in SPANS:
        if microseconds % length == 0 and microseconds:
            return f"{microseconds // length} {name}"
    return f"{microseconds} us"


def count(value: int, noun: str) -> str:
    return f"{value} {noun}" + ("" if value == 1 else "s")
