"""Manifests as bytes: JSON with a format version and a checksum of its own, for every store that keeps bytes.

A manifest that is torn, altered or of another version reads as None: the unit then takes an older one, or replays.
"""

from __future__ import annotations

import json

import xxhash

from biclique.ports.unit_json import decode_unit, encode_unit
from biclique.routing.table import Move
from biclique.tiers.progress import BlobRef, Manifest

VERSION = 2


def encode_manifest(manifest: Manifest) -> bytes:
    body = json.dumps(
        {
            "version": VERSION,
            "incarnation": manifest.incarnation,
            "frontier": manifest.frontier,
            "sealed": manifest.sealed,
            "offset": manifest.offset,
            "blobs": [list(blob) for blob in manifest.blobs],
            "adopted": sorted([encode_unit(m.source), encode_unit(m.target), m.version] for m in manifest.adopted),
            "totals": [list(counts) for counts in manifest.totals],
        },
        separators=(",", ":"),
    ).encode()
    return b"%016x\n" % xxhash.xxh64_intdigest(body) + body


def decode_manifest(data: bytes) -> Manifest | None:
    checksum, newline, body = data.partition(b"\n")
    if not newline or checksum != b"%016x" % xxhash.xxh64_intdigest(body):
        return None
    fields = json.loads(body)
    if fields["version"] != VERSION:
        return None
    return Manifest(
        incarnation=fields["incarnation"],
        frontier=fields["frontier"],
        sealed=fields["sealed"],
        offset=fields["offset"],
        blobs=tuple(BlobRef(*blob) for blob in fields["blobs"]),
        adopted=frozenset(Move(decode_unit(s), decode_unit(t), version) for s, t, version in fields["adopted"]),
        totals=tuple(tuple(counts) for counts in fields["totals"]),
    )
