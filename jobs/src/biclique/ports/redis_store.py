"""Checkpoints in Redis: quick to write, quick to read back, and never the only copy (the log is).

    <prefix>:manifests:<owner>   list, newest first, at most KEPT: "<incarnation> <manifest>"
    <prefix>:names               hash: how many kept manifests name a blob
    <prefix>:blob:<name>         checksum and bytes; it expires unless a manifest comes to name it

The prefix carries a hash tag, so that all keys of a query are in one slot. `publish` is one script with declared keys:
the incarnation is compared where the manifests are, so a process that comes back from a pause is refused whatever it
believes. The script may run twice (a retry after a lost answer): the second run finds its manifest at the head.
"""

from __future__ import annotations

import hashlib
from typing import Any

import redis

from biclique.ports.checkpoints import KEPT
from biclique.ports.manifest_json import decode_manifest, encode_manifest
from biclique.ports.sealed_bytes import sealed, unsealed
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

UNNAMED_S = 6 * 3600  # what a crash between blobs and manifest left is gone after this
ATTEMPTS = 8  # of a publication that meets another one of the same owner: a zombie's, so one is the rule

# KEYS: manifests, names, the blobs that the manifest names, the blobs that the manifest which falls out named.
# ARGV: incarnation, manifest, SHA-1 of the head that the caller saw, KEPT, how many blobs it names, their names, and
# those of the manifest that falls out.
PUBLISH = """
local head = redis.call('LINDEX', KEYS[1], 0)
local entry = ARGV[1] .. ' ' .. ARGV[2]
if head then
  if tonumber(string.match(head, '^%d+')) > tonumber(ARGV[1]) then return 'fenced' end
  if head == entry then return 'published' end
end
if ARGV[3] ~= (head and redis.sha1hex(head) or '') then return 'changed' end
redis.call('LPUSH', KEYS[1], entry)
redis.call('LTRIM', KEYS[1], 0, ARGV[4] - 1)
local named = tonumber(ARGV[5])
for i = 1, named do
  redis.call('HINCRBY', KEYS[2], ARGV[5 + i], 1)
  redis.call('PERSIST', KEYS[2 + i])
end
for i = named + 1, #ARGV - 5 do
  if redis.call('HINCRBY', KEYS[2], ARGV[5 + i], -1) <= 0 then
    redis.call('HDEL', KEYS[2], ARGV[5 + i])
    redis.call('UNLINK', KEYS[2 + i])
  end
end
return 'published'
"""


class EvictingRedis(Exception):
    """The server may throw checkpoints away without a word."""


class RedisStore:
    """`client` answers with bytes. `query`: names the keys; of no other query."""

    def __init__(self, client: redis.Redis, query: str) -> None:
        self._client, self._prefix = client, f"biclique:{{{query}}}"
        self._publish = client.register_script(PUBLISH)

    def refuse_eviction(self) -> None:
        policy = self._client.info("memory")["maxmemory_policy"]
        if policy != "noeviction":
            raise EvictingRedis(
                f"Redis has maxmemory-policy {policy}, under which it drops checkpoints when memory is short; "
                "set it to noeviction"
            )

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        return tuple(manifest for entry in self._entries(owner) if (manifest := _manifest_of(entry)) is not None)

    def get(self, name: str) -> bytes | None:
        stored = self._client.get(self._blob(name))
        if not isinstance(stored, bytes):
            return None
        return unsealed(stored)

    def put(self, name: str, data: bytes) -> None:
        self._client.set(self._blob(name), sealed(data), ex=UNNAMED_S)

    def publish(self, owner: Producer, manifest: Manifest) -> bool:
        names = sorted({blob.name for blob in manifest.blobs})
        for _ in range(ATTEMPTS):
            kept = self._entries(owner)
            dropped = sorted({name for entry in kept[KEPT - 1 :] for name in _names_of(entry)})
            head = hashlib.sha1(kept[0], usedforsecurity=False).hexdigest() if kept else ""
            keys = [self._manifests(owner), f"{self._prefix}:names", *map(self._blob, (*names, *dropped))]
            arguments: list[Any] = [
                manifest.incarnation,
                encode_manifest(manifest),
                head,
                KEPT,
                len(names),
                *names,
                *dropped,
            ]
            answer = self._publish(keys, arguments)
            if answer != b"changed":
                return answer == b"published"
        return False

    def _entries(self, owner: Producer) -> list[bytes]:
        found: Any = self._client.lrange(self._manifests(owner), 0, -1)
        return list(found)

    def _manifests(self, owner: Producer) -> str:
        return f"{self._prefix}:manifests:{owner}"

    def _blob(self, name: str) -> str:
        return f"{self._prefix}:blob:{name}"


def _manifest_of(entry: bytes) -> Manifest | None:
    _, _, encoded = entry.partition(b" ")
    return decode_manifest(encoded)


def _names_of(entry: bytes) -> set[str]:
    """None of one that cannot be read: its blobs stay, which wastes memory and loses nothing."""
    manifest = _manifest_of(entry)
    return set() if manifest is None else {blob.name for blob in manifest.blobs}
