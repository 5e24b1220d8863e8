"""Which keys of a manifest `biclique run` has no use for, because one machine has no brokers, pods or topics.

They may stand, so that the same file serves both; but whoever sets one to something is told that nothing came of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import BaseModel

from biclique.query.manifest import Manifest

# A block stands for all that is in it. Output to Kafka is refused, not passed over (hosts/embedded.py).
FOR_A_CLUSTER = (
    "spec.sources[].badRecordBurst",
    "spec.plan.transport",
    "spec.joiners.minReplicas",
    "spec.joiners.maxReplicas",
    "spec.joiners.cpu",
    "spec.joiners.image",
    "spec.joiners.nodeSelector",
    "spec.joiners.tolerations",
    "spec.tiers",
    "spec.scaling",
    "spec.state",
    "spec.topics",
    "spec.suspend",
    "spec.delivery",
    "spec.output.kafka",
)


def without_use(manifest: Manifest) -> tuple[str, ...]:
    """Those of these keys that are set to something else than what holds without them."""
    return tuple(place for key in FOR_A_CLUSTER for place in _set(manifest, key.split("."), ""))


def _set(block: BaseModel, path: Sequence[str], around: str) -> Iterator[str]:
    key, is_list = path[0].removesuffix("[]"), path[0].endswith("[]")
    name, field = next(
        (name, field) for name, field in type(block).model_fields.items() if (field.alias or name) == key
    )
    value = getattr(block, name)
    place = f"{around}.{key}" if around else key
    if len(path) == 1:
        if value != field.get_default(call_default_factory=True):
            yield place
    elif is_list:
        for number, member in enumerate(value):
            yield from _set(member, path[1:], f"{place}[{number}]")
    else:
        yield from _set(value, path[1:], place)
