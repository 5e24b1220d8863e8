"""One tier as a Spark application in the foreground: what `biclique tier` runs, at a terminal or in a driver pod.

Every tier makes what it needs and finds missing (topics, the first routing table): whichever starts first does it, and
the others find it done.

Units ask the control port themselves where it is a folder. Where it is in the Kubernetes API, or where somebody looks
at the driver's status, they ask their driver (server.py), which asks for all of them.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path

from confluent_kafka import KafkaException

from biclique.hosts.logs import begin_logging
from biclique.hosts.spark_pods import SHUFFLER_SLOTS, Executors, executors_for
from biclique.hosts.units.board import SPARK_STARTS, Board
from biclique.hosts.units.connections import kafka_settings, source_topics
from biclique.hosts.units.driver import SparkJobs, TierDriver, java_is_gone
from biclique.hosts.units.founding import found, owners_of, refuse_lost_tables
from biclique.hosts.units.patience import patiently
from biclique.hosts.units.process import unit_of
from biclique.hosts.units.server import serving
from biclique.hosts.units.session import HERE, Place, Whose, tier_spark
from biclique.hosts.units.spec import Surroundings, UnitSpec
from biclique.hosts.units.start_up import (
    cluster_of,
    look_at_store,
    note_what_begins,
    refuse_what_state_cannot_follow,
)
from biclique.hosts.units.stop import Stop
from biclique.hosts.units.trimming import Trimming, tables_of, trimmed_meanwhile
from biclique.plan.make import make_plan
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control import Condition, Control
from biclique.ports.controls import in_kubernetes, open_control, relay_at
from biclique.ports.kafka_log import KafkaLog, KafkaSettings
from biclique.ports.kafka_sources import SourceTopics
from biclique.ports.refusals import Refused, Unreachable
from biclique.ports.telemetry_settings import wanted_of
from biclique.ports.wire import Wire
from biclique.query.compile import compile_manifest
from biclique.query.errors import QueryError
from biclique.routing.table import Subgroup, UnitId
from biclique.tiers.messages import Producer
from biclique.tiers.progress import Progress

LOG = logging.getLogger(__name__)
# Of a task on an executor, where a unit that ends is started again by its driver (hosts/units/driver.py).
UNITS = {"spark.task.maxFailures": "1"}
# This Java only holds the units' sockets: left to itself, it would fill 130 MB with garbage before it looks.
UNITS_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmn32m"
SHUFFLER_SLOTS_MAX = 8  # on one machine: each is a Python process
EVERYWHERE, LOOPBACK = "0.0.0.0", "127.0.0.1"


class End(Enum):
    STOPPED = "stopped, as asked"
    SUPERSEDED = "ended, since a later driver of this tier has been started"
    OVER = "ended: every unit has left"


@dataclass(frozen=True)
class TierOptions:
    """`jars`: Spark's Kafka connector, for the shuffler. `place`: where tasks run. `status_port`: at which the driver's
    status is served; 0: any; None: none is. `units_max`: of one subgroup, however far it may grow."""

    manifest: str
    around: Surroundings
    jars: tuple[Path, ...] = ()
    place: Place = HERE
    status_port: int | None = None
    units_max: int = 8


def run_tier(tier: str, subgroup: Subgroup | None, options: TierOptions, asked: Callable[[], bool]) -> End:
    """`asked`: this process has been told to stop, besides what the control port says."""
    plan, around = make_plan(compile_manifest(options.manifest)), options.around
    names = _names(plan, tier, subgroup)
    wanted_of(os.environ)  # refused before anything is started
    kafka, topics = kafka_settings(around), source_topics(around, plan.query)
    with closing(open_control(around.control)) as control:
        shown = {f"{tier} {name}": name for name in names} or {
            source.name: source.name for source in plan.query.sources
        }

        stop = Stop(lambda: asked() or control.stopping(), lambda: board.turn())
        board = Board(tier, None if subgroup is None else str(subgroup), shown, stop, control.paused)
        begin_logging(plan.query.name, tier)
        with _served(options, board, control) as units_see:
            return _Tier(tier, subgroup, plan, names, options, kafka, topics, control, stop, board, units_see).run()


@contextmanager
def _served(options: TierOptions, board: Board, control: Control) -> Iterator[Callable[[str], Surroundings]]:
    """Yields what units are told of their surroundings, given the host at which they reach this driver."""
    around = options.around
    if options.status_port is None and not in_kubernetes(around.control):
        yield lambda host: around
        return
    token = secrets.token_urlsafe(24)
    listening = LOOPBACK if options.place.master is None and options.place.pod is None else EVERYWHERE
    with serving(listening, options.status_port or 0, board, control, token) as port:
        yield lambda host: replace(around, control=relay_at(host, port), token=token)


@dataclass(frozen=True)
class _Tier:
    """One attempt at running it."""

    tier: str
    subgroup: Subgroup | None
    plan: Plan
    names: Sequence[str]
    options: TierOptions
    kafka: KafkaSettings
    topics: SourceTopics
    control: Control
    stop: Stop
    board: Board
    units_see: Callable[[str], Surroundings]

    def run(self) -> End:
        attempt = self._begun()
        if attempt is None:
            return End.STOPPED
        self.board.attempt = attempt
        LOG.info("the tier begins", extra={"event": "tier.started"})
        self.board.turn()
        self.board.say(SPARK_STARTS)
        if self.tier == "shuffler":
            self._shuffle(attempt)
        else:
            self._run_units(attempt)
        if self._superseded(attempt):
            return End.SUPERSEDED
        return End.STOPPED if self.stop() else End.OVER

    @property
    def _name(self) -> str:
        """Whose attempts are counted."""
        if self.tier == "shuffler":
            return self.tier
        return f"driver {self.tier}" if self.subgroup is None else f"driver {self.tier} {self.subgroup}"

    def _superseded(self, attempt: int) -> bool:
        return self.control.attempts(self._name) > attempt

    def _begun(self) -> int | None:
        """The number of this attempt, when all is there that a tier needs; None: it was to stop before."""
        plan, control, topics = self.plan, self.control, self.topics
        given: list[int] = []

        def look() -> None:
            if self.tier in ("joiner", "merger"):
                look_at_store(self.options.around, plan.query, control.table(None) is not None, self.stop)

        def begin() -> None:
            cluster = cluster_of(self.kafka)
            log, units_max = KafkaLog(self.kafka, Wire(plan)), self.options.units_max
            self._refuse_lost_tables(log)
            looks = self.tier == "shuffler" or control.table(None) is None  # the others read no source
            read = topics.identities() if looks else {}
            note_what_begins(plan, control, cluster, read)
            refuse_what_state_cannot_follow(plan, control, cluster, read)
            found(plan, log, control, topics, units_max, self.board.turn)
            refuse_what_state_cannot_follow(plan, control, cluster, read)  # another may have noted meanwhile

        def count() -> None:
            given.append(control.next_attempt(self._name))

        done = all(patiently(action, self.stop, self.board.say) for action in (look, begin, count))
        return given[-1] if done else None

    def _refuse_lost_tables(self, log: KafkaLog) -> None:
        if self.control.table(None) is not None:
            return
        with closing(log.client()) as client:
            owners = log.that_may_have_progress(owners_of(self.plan))
            refuse_lost_tables(owners, client, self.control, self.options.around.prefix, self.board.turn)

    def _executors(self) -> Executors:
        """On this machine and on a cluster that is no Kubernetes: slots alone."""
        place, units = self.options.place, len(self.names)
        if place.in_pods:
            return executors_for(self.tier, dict(self.plan.query.hints.executors)[self.tier], units)
        if units or place.pod is not None:  # a pod's processors are not those of its node
            return Executors(1, units or SHUFFLER_SLOTS)
        return Executors(1, min(os.cpu_count() or 1, SHUFFLER_SLOTS_MAX))

    def _shuffle(self, attempt: int) -> None:
        from biclique.hosts.shuffle.application import run_shuffler  # for the tier that shuffles alone

        options = self.options
        run_shuffler(
            options.manifest,
            self.plan,
            options.around,
            options.place,
            self._executors(),
            options.jars,
            attempt,
            self.control,
            self.topics,
            self.board,
            lambda: self.stop() or self._superseded(attempt),
        )

    def _run_units(self, attempt: int) -> None:
        options, plan, tier, control, board = self.options, self.plan, self.tier, self.control, self.board
        around = options.around
        spark = tier_spark(
            Whose(plan.query.name, tier, around.prefix), options.place, self._executors(), UNITS_JAVA, UNITS
        )
        context, log = spark.sparkContext, KafkaLog(self.kafka, Wire(plan))
        seen = self.units_see(context.getConf().get("spark.driver.host", LOOPBACK))
        specs = [UnitSpec(options.manifest, tier, name, seen) for name in self.names]

        def tell(name: str, condition: Condition | None) -> None:
            board.tell(name, condition)
            control.tell(name, condition)

        superseded, place = partial(self._superseded, attempt), partial(_place_of, log)
        driver = TierDriver(SparkJobs(context), specs, self.stop, superseded, tell, place, board.ended)

        def units() -> frozenset[UnitId]:
            return frozenset(unit_of(plan, spec.name) for spec in specs if spec.name not in driver.left)

        mine = units if tier == "joiner" else frozenset
        trimming = Trimming(plan, tier, self._name, log, partial(tables_of, control), mine)
        board.say("")
        try:
            with trimmed_meanwhile(trimming):
                driver.run()
        finally:
            if not java_is_gone(context):
                context.stop()


def _place_of(log: KafkaLog, spec: UnitSpec) -> Progress | None:
    client = log.client()
    try:
        return client.read_progress(Producer(spec.tier, spec.name))
    except (Refused, Unreachable, KafkaException):
        return None
    finally:
        client.close()


def _names(plan: Plan, tier: str, subgroup: Subgroup | None) -> Sequence[str]:
    """Of a tier's units. Raises QueryError where there would be none."""
    if subgroup is not None and tier != "joiner":
        raise QueryError("--subgroup", f"a {tier} has no subgroups", "leave it away, or start a joiner")
    match tier:
        case "shuffler":
            return ()
        case "dispatcher":
            return [str(number) for number in range(plan.dispatchers)]
        case "merger":
            if not plan.mergers:
                raise QueryError("merger", "this query merges nothing", "start one for GROUP BY and DISTINCT alone")
            return [str(number) for number in range(plan.mergers)]
        case _:
            units = first_table(plan).units()
            found = [str(unit) for unit in units if subgroup is None or unit.subgroup == subgroup]
            if not found:
                known = ", ".join(dict.fromkeys(str(unit.subgroup) for unit in units))
                raise QueryError("--subgroup", f"{subgroup} is none of this query's", f"choose one of {known}")
            return found
