"""A recording of a terminal as a picture that moves: the same recording gives the same bytes, so that a kept picture
can be checked against it. Whoever does not let pictures move sees how it ended."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLUMNS, ROWS = 110, 30
LINE, LETTER, MARGIN, FONT = 17, 7.3, 16, 12
HOLD_S = 8.0  # at the end, before it begins again
PROMPT = "$ "


@dataclass(frozen=True)
class Line:
    """`second`: when it appeared. `typed`: by the person; also where a command goes on over the next line."""

    second: float
    text: str
    typed: bool


def picture(cast: str) -> str:
    lines = tuple(lines_of(cast))
    whole_s = lines[-1].second + HOLD_S
    width, height = round(COLUMNS * LETTER + 2 * MARGIN), ROWS * LINE + 2 * MARGIN
    inside = f'width="{width - 2 * MARGIN}" height="{ROWS * LINE}"'
    ahead = max(0, len(lines) - ROWS) * LINE
    letters = f'font-family="Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="{FONT}" xml:space="preserve"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        f"<style>{''.join(rules(lines, whole_s))}</style>",
        f'<rect width="{width}" height="{height}" rx="6" fill="#16191f"/>',
        f'<svg x="{MARGIN}" y="{MARGIN}" {inside}>',
        f'<g id="up" transform="translate(0,{-ahead})" {letters}>',
        *(_drawn(number, line) for number, line in enumerate(lines)),
        "</g></svg></svg>",
    ]
    return "\n".join([*parts, ""])


def rules(lines: Sequence[Line], whole_s: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"@keyframes l{number}{{0%{{visibility:hidden}}{_at(line.second, whole_s)}{{visibility:visible}}}}"
    yield f"@keyframes up{{{''.join(scrolled(lines, whole_s))}}}"
    yield f"text{{animation:{whole_s:.2f}s step-end infinite}}#up{{animation:up {whole_s:.2f}s step-end infinite}}"


def lines_of(cast: str) -> Iterator[Line]:
    """Pauses cut as the recording asks for, long lines broken as the terminal does it."""
    head, *events = (json.loads(line) for line in cast.splitlines())
    now = before = 0.0
    for second, _, text in events:
        now, before = now + min(second - before, head["idle_time_limit"]), second
        typed = text.startswith(PROMPT)
        for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
            for start in range(0, max(1, len(line)), head["width"]):
                yield Line(now, line[start : start + head["width"]], typed)


def commands_of(cast: str) -> list[str]:
    texts = [json.loads(line)[2].replace("\r\n", "\n") for line in cast.splitlines()[1:]]
    return [text.removeprefix(PROMPT).removesuffix("\n") for text in texts if text.startswith(PROMPT)]


def scrolled(lines: Sequence[Line], whole_s: float) -> Iterator[str]:
    """How far it has moved up, from when on: the newest line stays at the bottom."""
    yield "0%{transform:translateY(0)}"
    by_second = {line.second: number for number, line in enumerate(lines, 1) if number > ROWS}
    for second, number in by_second.items():
        yield f"{_at(second, whole_s)}{{transform:translateY({-(number - ROWS) * LINE}px)}}"
    yield f"100%{{transform:translateY({-max(0, len(lines) - ROWS) * LINE}px)}}"


def _drawn(number: int, line: Line) -> str:
    color = "#e6edf3" if line.typed else "#9fb0c3"
    place = f'y="{number * LINE + FONT}" fill="{color}" style="animation-name:l{number}"'
    return f"<text {place}>{escape(line.text)}</text>"


def _at(second: float, whole_s: float) -> str:
    return f"{100 * second / whole_s:.3f}%"
