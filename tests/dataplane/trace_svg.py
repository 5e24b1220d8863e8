"""A trace as a picture: a bar for each span over one axis of time, parts below what they are parts of. The same spans
give the same bytes, so that a kept picture can be checked against the spans it was drawn from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape

Drawn = Mapping[str, Any]  # a span: tier, unit, name, span, parent, start_us, end_us, note
COLORS = {"shuffler": "#5b7db1", "dispatcher": "#b0793a", "joiner": "#1b6e53", "merger": "#7a5195"}
WIDTH, LABELS, ROW, TOP, BOTTOM, RIGHT = 960, 300, 20, 34, 34, 110
FONT = 'font-family="Helvetica, Arial, sans-serif"'


def picture(spans: Sequence[Drawn]) -> str:
    rows = list(in_order(spans))
    begin, end = min(span["start_us"] for span in spans), max(span["end_us"] for span in spans)
    scale = (WIDTH - LABELS - RIGHT) / max(1, end - begin)
    height = TOP + ROW * len(rows) + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
    ]
    for step in ticks((end - begin) / 1000):
        x = LABELS + step * 1000 * scale
        lines.append(f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - BOTTOM}" stroke="#e3e6eb"/>')
        lines.append(_text(x, TOP - 12, f"{step:g} ms", "middle", "#667"))
    for number, (depth, span) in enumerate(rows):
        y = TOP + ROW * number
        x, width = LABELS + (span["start_us"] - begin) * scale, (span["end_us"] - span["start_us"]) * scale
        color, whole = COLORS[span["tier"]], depth == 0 or span["name"] in ("dispatch", "join", "merge")
        thick = 12 if whole else 6
        lines.append(
            f'<rect x="{x:.1f}" y="{y + (ROW - thick) / 2:.1f}" width="{max(width, 1.5):.1f}" height="{thick}" '
            f'rx="2" fill="{color}" fill-opacity="{1 if whole else 0.55}"/>'
        )
        label = " ".join(filter(None, (span["tier"], span["unit"]))) + f": {span['name']}" if whole else span["name"]
        lines.append(_text(12 + 14 * depth, y + 14, label + (f" ({span['note']})" if span["note"] else ""), "start"))
        took = (span["end_us"] - span["start_us"]) / 1000
        lines.append(_text(x + max(width, 1.5) + 5, y + 14, f"{took:.1f} ms", "start", "#667"))
    lines.append(_text(LABELS, height - 12, "gaps: the block waits in Kafka, or for the frontier", "start", "#667"))
    return "\n".join([*lines, "</svg>", ""])


def in_order(spans: Sequence[Drawn]) -> Iterator[tuple[int, Drawn]]:
    """Each after its parent, those of one parent by time; and how deep it stands."""
    known = {span["span"] for span in spans}

    def below(parent: str | None, depth: int) -> Iterator[tuple[int, Drawn]]:
        found = [s for s in spans if (s["parent"] == parent if parent else s["parent"] not in known)]
        for span in sorted(found, key=lambda s: (s["name"] == "join", s["start_us"], s["end_us"], s["span"])):
            yield depth, span
            yield from below(span["span"], depth + 1)

    return below(None, 0)


def ticks(length_ms: float) -> list[float]:
    """Round numbers from 0, about six of them."""
    step = next(s * 10**power for power in range(-1, 6) for s in (1, 2, 5) if length_ms / (s * 10**power) <= 7)
    return [step * n for n in range(int(length_ms / step) + 1)]


def _text(x: float, y: float, text: str, anchor: str, color: str = "#223") -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" {FONT} font-size="11" fill="{color}" text-anchor="{anchor}">{escape(text)}</text>'
    )
