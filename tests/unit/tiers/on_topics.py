"""Manifests of joins of two topics, so that a test states only what it is about."""

from __future__ import annotations

JOIN = "SELECT r.k FROM r JOIN s ON r.k = s.k"


def on_topics(
    sql: str = JOIN,
    *more: str,
    r: str = "k INT",
    s: str = "k INT",
    of_r: str = "",
    topics: tuple[str, str] = ("r", "s"),
    out: str = "topic: out, format: json",
    brokers: str = "b:1",
) -> str:
    """`more`: lines of the spec. `r`, `s`: schemas; `of_r`: further keys of the source. `topics`: that they read."""
    given = (("r", r, f"{of_r}, " if of_r else "", topics[0]), ("s", s, "", topics[1]))
    sources = [
        f'{{name: {name}, schema: "{schema}", {keys}'
        f'kafka: {{bootstrapServers: "{brokers}", topic: {topic}, format: json}}}}'
        for name, schema, keys, topic in given
    ]
    lines = (
        "apiVersion: biclique.dev/v1alpha1",
        "kind: JoinQuery",
        "metadata: {name: q}",
        "spec:",
        "  sources:",
        *(f"    - {source}" for source in sources),
        f'  sql: "{sql}"',
        *(f"  {line}" for line in more),
        f'  output: {{kafka: {{bootstrapServers: "{brokers}", {out}}}}}',
    )
    return "\n".join([*lines, ""])
