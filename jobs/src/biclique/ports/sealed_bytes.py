"""A blob with its checksum behind it, as every store that keeps bytes keeps it: what was torn or altered reads as
missing."""

from __future__ import annotations

import xxhash

CHECKSUM_BYTES = 8


def sealed(data: bytes) -> bytes:
    return data + xxhash.xxh64_digest(data)


def unsealed(stored: bytes) -> bytes | None:
    data, checksum = stored[:-CHECKSUM_BYTES], stored[-CHECKSUM_BYTES:]
    return data if checksum == xxhash.xxh64_digest(data) else None
