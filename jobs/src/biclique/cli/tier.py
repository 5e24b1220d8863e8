"""`biclique tier`: one tier of a query in the foreground, on this machine or in a driver pod.

Settings come from the environment, read here and nowhere else:

BICLIQUE_KAFKA     bootstrap servers; by default those that all of the manifest's topics have
BICLIQUE_REDIS     where checkpoints are kept; by default spec.state.redis.url; not asked for with spec.state.durable
BICLIQUE_SECRETS   the folder with a folder for each Secret that a secretRef names, and in it a file for each key
BICLIQUE_VOLUMES   the folder with a folder for each claim that state.durable.volume names, as it is mounted
BICLIQUE_CONTROL   the control port: a folder, in which a file `stop` stops the query, or, in Kubernetes,
                   kubernetes:<namespace>/<ConfigMap>
BICLIQUE_PREFIX    of topics, keys and transactional ids, of no other query; by default the query's name
BICLIQUE_JARS      the folder with Spark's Kafka connector; for the shuffler
BICLIQUE_MASTER    of the Spark cluster whose executors run the tier's tasks; by default this machine runs them
BICLIQUE_STATUS_PORT   at which the driver says how it is (hosts/units/server.py); by default it does not
POD_NAME, POD_NAMESPACE, POD_IP   of the pod that this is, with a master that begins with k8s://
BICLIQUE_MANIFEST_DIGEST, BICLIQUE_SPARK_DIGEST   of the manifest and of SPARK_CONF_DIR as whoever made the pod has
                   written them; by default whatever is there will do
"""

from __future__ import annotations

import logging
import os
import re
import signal
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from biclique.cli.last_words import leave_last_words
from biclique.cli.loading import load, text_of
from biclique.hosts.spark_pods import POD_IP, POD_NAME, POD_NAMESPACE, Pod
from biclique.hosts.units.application import End, TierOptions, run_tier
from biclique.hosts.units.session import KUBERNETES, Place
from biclique.hosts.units.spec import Surroundings
from biclique.ports.refusals import OldCopy
from biclique.query.compile import has_password
from biclique.query.errors import QueryError
from biclique.query.model import Kafka, Query
from biclique.query.pod import MANIFEST_DIGEST, SPARK_DIGEST, SPARK_FILES, digest_of
from biclique.routing.table import Subgroup

LOG = logging.getLogger(__name__)
TIERS = ("shuffler", "dispatcher", "joiner", "merger")
ENDS_S = 18.0  # a pod that is told to end has 20 s


def run(tier: str, manifest: Path, subgroup: str | None) -> None:
    """Returns when the tier was to end, and has."""
    try:
        leave_last_words(_run(tier, manifest, subgroup))
    except Exception as error:  # of whatever it ends, its pod is to say so
        leave_last_words(str(error) or type(error).__name__)
        raise


def _run(tier: str, manifest: Path, subgroup: str | None) -> str:
    asked = _asked_by_signal(tier)
    settings = os.environ
    _refuse_old_copies(settings, manifest)
    query = load(manifest)
    around = Surroundings(
        kafka={"bootstrap.servers": settings.get("BICLIQUE_KAFKA") or brokers_of(query)},
        redis=_redis(settings, query),
        control=_needed(settings, "BICLIQUE_CONTROL", "a folder that all tiers of the query see, or kubernetes:…"),
        prefix=_prefix(settings, query),
        secrets=settings.get("BICLIQUE_SECRETS") or "",
        kafka_secret=query.output.secret if isinstance(query.output, Kafka) else None,
        redis_secret=query.redis.secret if query.redis is not None else None,
        volumes=settings.get("BICLIQUE_VOLUMES") or "",
    )
    jars: tuple[Path, ...] = ()
    if tier == "shuffler":
        jars = _connector(Path(_needed(settings, "BICLIQUE_JARS", "the folder with Spark's Kafka connector")))
    options = TierOptions(text_of(manifest), around, jars, _place(settings), _port(settings))
    return words_of(tier, run_tier(tier, _subgroup(subgroup), options, asked.is_set), asked.is_set())


def words_of(tier: str, end: End, told_by_signal: bool) -> str:
    """By whom its process was told, it does not know: it may have been a probe."""
    if end is End.STOPPED and told_by_signal:
        return f"the {tier} has stopped, since its process was told to end"
    return f"the {tier} has {end.value}"


def _refuse_old_copies(settings: Mapping[str, str], manifest: Path) -> None:
    """A node mounts what it knows of a ConfigMap, which may be what stood there before the pod was made; and a manifest
    is read once. Nothing is begun with an old one, not even judged: the next attempt is given the new one."""
    folder = Path(settings.get("SPARK_CONF_DIR") or "")
    mounted = {MANIFEST_DIGEST: [manifest], SPARK_DIGEST: [folder / name for name in SPARK_FILES]}
    for setting, files in mounted.items():
        wanted = settings.get(setting)
        if wanted and (found := digest_of(*map(text_of, files))) != wanted:
            raise OldCopy(
                f"{files[0]} is not what this pod was made for ({setting} is {wanted}, and this is {found}): its node "
                "knew an older copy, and the next attempt reads the new one"
            )


def _asked_by_signal(tier: str) -> threading.Event:
    """Set by Ctrl-C and by whoever ends a pod. The tier then ends between two transactions; what has not come so far in
    time is left, and fenced by whoever comes next."""
    asked = threading.Event()

    def leave() -> None:
        LOG.warning("the tier has not ended in %.0f s, and is left", ENDS_S, extra={"event": "tier.left"})
        leave_last_words(f"the {tier}'s process was told to end, and was left since it had not after {ENDS_S:.0f} s")
        os._exit(0)

    def ask(number: int, frame: FrameType | None) -> None:
        if not asked.is_set() and number == signal.SIGTERM:
            leaving = threading.Timer(ENDS_S, leave)
            leaving.daemon = True
            leaving.start()
        asked.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, ask)
    return asked


def _place(settings: Mapping[str, str]) -> Place:
    master = settings.get("BICLIQUE_MASTER") or None
    if master is not None and master.startswith(KUBERNETES):
        named = [
            _needed(settings, name, "as the pod's own (downward API)") for name in (POD_NAME, POD_NAMESPACE, POD_IP)
        ]
        return Place(master, Pod(*named))
    ip = settings.get(POD_IP)
    return Place(master, Pod(settings.get(POD_NAME, ""), settings.get(POD_NAMESPACE, ""), ip) if ip else None)


def _port(settings: Mapping[str, str]) -> int | None:
    text = settings.get("BICLIQUE_STATUS_PORT")
    if not text:
        return None
    if not (text.isdigit() and int(text) < 1 << 16):
        raise QueryError("BICLIQUE_STATUS_PORT", f"{text} is no port", "write a number, as 7077")
    return int(text)


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


def _prefix(settings: Mapping[str, str], query: Query) -> str:
    """Names of topics begin with it, and Kafka has its own rules for those."""
    prefix = settings.get("BICLIQUE_PREFIX") or query.name
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}", prefix):
        remedy = "write up to 200 letters, digits, dots, dashes and underscores, and begin with a letter or digit"
        raise QueryError("BICLIQUE_PREFIX", f"no topic may be called {prefix[:40]!r}", remedy)
    return prefix


def _connector(folder: Path) -> tuple[Path, ...]:
    jars = tuple(sorted(folder.glob("*.jar")))
    if not any(jar.name.startswith("spark-sql-kafka") for jar in jars):
        remedy = "name the folder that `python -m infra.jars fetch` says last"
        raise QueryError("BICLIQUE_JARS", f"there is no Kafka connector of Spark's in {folder}", remedy)
    return jars


def _redis(settings: Mapping[str, str], query: Query) -> str:
    url = settings.get("BICLIQUE_REDIS")
    if url is not None and has_password(url):
        raise QueryError(
            "BICLIQUE_REDIS", "a password stands in it", "put it into a Secret: spec.state.redis.secretRef"
        )
    if not url and query.redis is not None:
        return query.redis.url
    if not url and query.durable is not None:
        return ""
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
    written = re.fullmatch(r"([0-9]{1,3})([LRM])([0-9]{1,9})", text)
    if written is None:
        raise QueryError("--subgroup", f"{text} is no subgroup", "write stage, side and number, as 0L0 or 0R1")
    stage, side, number = written.groups()
    return Subgroup(int(stage), "LRM".index(side), int(number))
