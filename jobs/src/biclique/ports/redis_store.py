"""Checkpoints in Redis: quick to write, quick to read back, and never the only copy (the log is).

    <prefix>:manifests:<owner>   list, newest first, at most KEPT: "<incarnation> <manifest>"
    <prefix>:names               hash: how many kept manifests name a blob
    <prefix>:blob:<name>         checksum and bytes

The prefix carries a hash tag, so that all keys of a query are in one slot. `publish` is one script with declared keys:
the incarnation is compared, and the blobs are looked for, where the manifests are. So a process that comes back from a
pause is refused whatever it believes, and no manifest names a blob that a flush between two calls has taken away. The
script may run twice (a retry after a lost answer): the second run finds its manifest at the head.

Every key expires unless a publication renews it: blobs that a crash left without a manifest soon, everything else of
a unit or a query that is gone after a week. So what Redis holds is bounded by what is alive.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from biclique.ports.checkpoints import KEPT, StoreRefusal, StoreUnavailable, UnfitStore
from biclique.ports.manifest_json import decode_manifest, encode_manifest
from biclique.ports.sealed_bytes import sealed, unsealed
from biclique.tiers.effects import BlobsLost, Publication
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Manifest

UNNAMED_S = 6 * 3600  # what a crash between blobs and manifest left is gone after this
NAMED_S = 7 * 24 * 3600  # since the last publication: a query that rests for longer replays its log
CALL_S = 5.0  # of one step of a call; PatientStore bounds the whole of it
ATTEMPTS = 8  # of a publication that meets another one of the same owner: a zombie's, so one is the rule

# KEYS: manifests, names, the blobs that the manifest names, the blobs that the manifest which falls out named.
# ARGV: incarnation, manifest, SHA-1 of the head that the caller saw, KEPT, NAMED_S, how many blobs it names, their
# names, and those of the manifest that falls out. Out of memory, the first write fails and nothing has been done.
PUBLISH = """
local head = redis.call('LINDEX', KEYS[1], 0)
local entry = ARGV[1] .. ' ' .. ARGV[2]
if head then
  if tonumber(string.match(head, '^%d+')) > tonumber(ARGV[1]) then return {'superseded'} end
  if head == entry then return {'published'} end
end
if ARGV[3] ~= (head and redis.sha1hex(head) or '') then return {'changed'} end
local named = tonumber(ARGV[6])
local lost = {'lost'}
for i = 1, named do
  if redis.call('EXISTS', KEYS[2 + i]) == 0 then lost[#lost + 1] = ARGV[6 + i] end
end
if #lost > 1 then return lost end
redis.call('LPUSH', KEYS[1], entry)
redis.call('LTRIM', KEYS[1], 0, ARGV[4] - 1)
redis.call('EXPIRE', KEYS[1], ARGV[5])
for i = 1, named do
  redis.call('HINCRBY', KEYS[2], ARGV[6 + i], 1)
  redis.call('EXPIRE', KEYS[2 + i], ARGV[5])
end
for i = named + 1, #ARGV - 6 do
  if redis.call('HINCRBY', KEYS[2], ARGV[6 + i], -1) <= 0 then
    redis.call('HDEL', KEYS[2], ARGV[6 + i])
    redis.call('UNLINK', KEYS[2 + i])
  end
end
redis.call('EXPIRE', KEYS[2], ARGV[5])
return {'published'}
"""


class EvictingRedis(UnfitStore):
    """The server may throw checkpoints away without a word."""


def connected(url: str, **security: Any) -> redis.Redis:
    """Every call is bounded in time. One that finds its connection closed tries once more: the server has restarted."""
    patience = Retry(NoBackoff(), 1, supported_errors=(redis.ConnectionError,))
    return redis.Redis.from_url(url, socket_timeout=CALL_S, socket_connect_timeout=CALL_S, retry=patience, **security)


class RedisStore:
    """`client` answers with bytes. `query`: names the keys; of no other query."""

    def __init__(self, client: redis.Redis, query: str) -> None:
        self._client, self._prefix = client, f"biclique:{{{query}}}"
        self._publish = client.register_script(PUBLISH)

    def refuse_eviction(self) -> None:
        with _unavailable():
            policy = self._client.info("memory")["maxmemory_policy"]
        if policy != "noeviction":
            raise EvictingRedis(
                f"Redis has maxmemory-policy {policy}, under which it drops checkpoints when memory is short; "
                "set it to noeviction"
            )

    @property
    def address(self) -> str:
        """For people; without user and password."""
        at = self._client.connection_pool.connection_kwargs
        return str(at["path"]) if "path" in at else f"{at.get('host', 'localhost')}:{at.get('port', 6379)}"

    def cut(self) -> None:
        """Ends whatever call is under way in another thread."""
        self._client.connection_pool.disconnect()

    def load(self, owner: Producer) -> tuple[Manifest, ...]:
        return tuple(manifest for entry in self._entries(owner) if (manifest := _manifest_of(entry)) is not None)

    def get(self, name: str) -> bytes | None:
        with _unavailable():
            stored = self._client.get(self._blob(name))
        if not isinstance(stored, bytes):
            return None
        return unsealed(stored)

    def put(self, name: str, data: bytes) -> bool:
        with _unavailable():
            self._client.set(self._blob(name), sealed(data), ex=UNNAMED_S)
        return True

    def publish(self, owner: Producer, manifest: Manifest) -> Publication | BlobsLost:
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
                NAMED_S,
                len(names),
                *names,
                *dropped,
            ]
            with _unavailable():
                answer, *lost = self._publish(keys, arguments)
            match answer:
                case b"published":
                    return Publication.PUBLISHED
                case b"superseded":
                    return Publication.SUPERSEDED
                case b"lost":
                    return BlobsLost(frozenset(name.decode() for name in lost))
        return Publication.UNAVAILABLE

    def _entries(self, owner: Producer) -> list[bytes]:
        with _unavailable():
            found: Any = self._client.lrange(self._manifests(owner), 0, -1)
        return list(found)

    def _manifests(self, owner: Producer) -> str:
        return f"{self._prefix}:manifests:{owner}"

    def _blob(self, name: str) -> str:
        return f"{self._prefix}:blob:{name}"


@contextmanager
def _unavailable() -> Iterator[None]:
    """What the client raises, as one clause without an address: whoever says it knows where Redis is."""
    try:
        yield
    except redis.AuthenticationError:
        raise StoreRefusal("it refuses the user name or the password") from None
    except redis.exceptions.NoPermissionError as error:
        raise StoreRefusal(f"its user lacks a right: {error}") from None
    except redis.exceptions.OutOfMemoryError:
        raise StoreUnavailable("it is out of memory (maxmemory)") from None
    except redis.TimeoutError:
        raise StoreUnavailable(f"it does not answer within {CALL_S:g} s") from None
    except redis.RedisError as error:
        raise StoreUnavailable(f"it does not answer as it should: {error}") from None


def _manifest_of(entry: bytes) -> Manifest | None:
    _, _, encoded = entry.partition(b" ")
    return decode_manifest(encoded)


def _names_of(entry: bytes) -> set[str]:
    """None of one that cannot be read: its blobs stay, which wastes memory and loses nothing."""
    manifest = _manifest_of(entry)
    return set() if manifest is None else {blob.name for blob in manifest.blobs}
