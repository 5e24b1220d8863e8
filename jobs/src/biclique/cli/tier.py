"""`biclique tier`: one tier of a query in the foreground, on this machine or in a driver pod.

Settings come from the environment, read here and nowhere else:

BICLIQUE_KAFKA     bootstrap servers; by default those that all of the manifest's topics have
BICLIQUE_REDIS     where checkpoints are kept; by default spec.state.redis.url
BICLIQUE_SECRETS   the folder with a folder for each Secret that a secretRef names, and in it a file for each key
BICLIQUE_CONTROL   the control port's folder; a file `stop` in it stops the query
BICLIQUE_PREFIX    of topics, keys and transactional ids, of no other query; by default the query's name
BICLIQUE_JARS      the folder with Spark's Kafka connector; for the shuffler
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from biclique.cli.loading import load, text_of
from biclique.hosts.units.application import TierOptions, run_tier
from biclique.hosts.units.spec import Surroundings
from biclique.query.compile import has_password
from biclique.query.errors import QueryError
from biclique.query.model import Kafka, Query
from biclique.routing.table import Subgroup

TIERS = ("shuffler", "dispatcher", "joiner", "merger")


def run(tier: str, manifest: Path, subgroup: str | None) -> None:
    query = load(manifest)
    settings = os.environ
    asked = [False]

    def ask(number: int, frame: FrameType | None) -> None:
        asked[0] = True

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, ask)
    around = Surroundings(
        kafka={"bootstrap.servers": settings.get("BICLIQUE_KAFKA") or brokers_of(query)},
        redis=_redis(settings, query),
        control=_needed(settings, "BICLIQUE_CONTROL", "a folder that all tiers of the query see"),
        prefix=settings.get("BICLIQUE_PREFIX") or query.name,
        secrets=settings.get("BICLIQUE_SECRETS") or "",
        kafka_secret=query.output.secret if isinstance(query.output, Kafka) else None,
        redis_secret=query.redis.secret if query.redis is not None else None,
    )
    jars: tuple[Path, ...] = ()
    if tier == "shuffler":
        folder = Path(_needed(settings, "BICLIQUE_JARS", "the folder with Spark's Kafka connector"))
        jars = tuple(sorted(folder.glob("*.jar")))
    options = TierOptions(text_of(manifest), around, jars)
    stop_file = Path(around.control) / "stop"
    run_tier(tier, _subgroup(subgroup), options, lambda: asked[0] or stop_file.exists())


def brokers_of(query: Query) -> str:
    given = [each for each in (*(source.input for source in query.sources), query.output) if isinstance(each, Kafka)]
    if len(given) <= len(query.sources):
        raise QueryError("spec", "sources and output are files", "name topics, or use `biclique run`")
    found = sorted({each.bootstrap_servers for each in given})
    if len(found) > 1:
        problem = f"bootstrapServers differ: {' and '.join(found)}"
        remedy = (
            "read and write topics of one cluster; if these are addresses of one, set BICLIQUE_KAFKA to one of them"
        )
        raise QueryError("spec", problem, remedy)
    return found[0]


def _redis(settings: Mapping[str, str], query: Query) -> str:
    url = settings.get("BICLIQUE_REDIS")
    if url is not None and has_password(url):
        raise QueryError(
            "BICLIQUE_REDIS", "a password stands in it", "put it into a Secret: spec.state.redis.secretRef"
        )
    if not url and query.redis is not None:
        return query.redis.url
    return _needed(settings, "BICLIQUE_REDIS", "redis://host:6379/0, or in the manifest as spec.state.redis.url")


def _needed(settings: Mapping[str, str], name: str, example: str) -> str:
    value = settings.get(name)
    if not value:
        raise QueryError(name, "this setting is missing in the environment", f"set it: {example}")
    return value


def _subgroup(text: str | None) -> Subgroup | None:
    """As the routing table writes it: stage, side and number, `0L1`."""
    if text is None:
        return None
    stage, side, number = text[:1], text[1:2], text[2:]
    if not (stage.isdigit() and side in "LRM" and side and number.isdigit()):
        raise QueryError("--subgroup", f"{text} is no subgroup", "write stage, side and number, as 0L0 or 0R1")
    return Subgroup(int(stage), "LRM".index(side), int(number))
