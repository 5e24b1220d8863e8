"""Whether an object is as it should be: what was applied is remembered on it as a digest, and what is ours of it must
stand there as it was applied.

The digest tells what this version no longer says; the comparison tells what somebody else has changed. What others have
added, and defaults of the API, are neither.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from biclique_operator.desired.names import APPLIED

Raw = dict[str, Any]


def sealed(desired: Raw) -> Raw:
    """With its digest on it."""
    digest = hashlib.sha256(json.dumps(desired, sort_keys=True).encode()).hexdigest()[:16]
    about = desired["metadata"]
    return {**desired, "metadata": {**about, "annotations": {**(about.get("annotations") or {}), APPLIED: digest}}}


def differs(desired: Raw, stands: Raw | None) -> bool:
    """`desired`: sealed."""
    return stands is None or not _within(desired, stands)


def _within(part: Any, whole: Any) -> bool:
    if isinstance(part, dict):
        if not part:
            return whole is None or isinstance(whole, dict)
        return isinstance(whole, dict) and all(_within(value, whole.get(key)) for key, value in part.items())
    if isinstance(part, list):
        if not part:
            return not whole
        return (
            isinstance(whole, list)
            and len(part) == len(whole)
            and all(_within(one, other) for one, other in zip(part, whole, strict=True))
        )
    return bool(part == whole)
