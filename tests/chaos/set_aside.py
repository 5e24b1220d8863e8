"""What the query set aside: its late and dead topics, as a reader of what is committed finds them."""

from __future__ import annotations

import json
from collections import Counter

from tests.dataplane.topics import committed, header


def set_aside(bootstrap: str, prefix: str) -> tuple[Counter[tuple[str, int]], Counter[bytes]]:
    """Late rows by side and number, dead ones as they came. `prefix`: of the query's topics."""
    late = Counter(
        (header(message, "source"), int(json.loads(message.value())["v"]))
        for message in committed(bootstrap, f"{prefix}.late")
    )
    return late, Counter(message.value() for message in committed(bootstrap, f"{prefix}.dead"))
