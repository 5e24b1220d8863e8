"""A tier's Spark: on this machine, or the driver of executors elsewhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from biclique.hosts.logs import WHOSE
from biclique.hosts.spark_pods import Executors, Pod, executors_environment, in_pods
from biclique.hosts.spark_settings import (
    LOG_SETTINGS,
    on_a_cluster,
    on_this_machine,
    refuse_without_java,
    say_nothing_of_accumulators,
)
from biclique.hosts.units.driver import TierFailed, reason_of

KUBERNETES = "k8s://"
TASK_DAEMON = "biclique.hosts.task_daemon"  # by name: what imports it has imported all of it


@dataclass(frozen=True)
class Place:
    """Where a tier's tasks run. `master`: of the cluster; None: this machine. `pod`: that the driver is in, if it is in
    one."""

    master: str | None = None
    pod: Pod | None = None

    @property
    def in_pods(self) -> bool:
        """Its executors are pods, too."""
        return self.pod is not None and self.master is not None and self.master.startswith(KUBERNETES)


HERE = Place()


@dataclass(frozen=True)
class Whose:
    """Of which tier of which query. `prefix`: of everything that is the query's."""

    query: str
    tier: str
    prefix: str


def tier_spark(whose: Whose, place: Place, executors: Executors, java: str, more: Mapping[str, str]) -> Any:
    """Raises TierFailed."""
    refuse_without_java()
    from pyspark.sql import SparkSession

    java = f"{_logging(whose)} {java}"
    settings = {
        **_placed(f"{whose.prefix}-{whose.tier}", place, executors, java),
        f"spark.executorEnv.{WHOSE}": f"{whose.query} {whose.tier}",
        "spark.python.daemon.module": TASK_DAEMON,
        # Over TCP a task's small messages wait for acknowledgements, some 40 ms in each batch.
        "spark.python.unix.domain.socket.enabled": "true",
        **more,
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        say_nothing_of_accumulators(session.sparkContext)
        return session
    except Exception as error:  # whatever Spark raises, the sentence is one
        where, remedy = (
            ("on this machine", "see what Java wrote")
            if place.master is None
            else (f"at {place.master}", "correct BICLIQUE_MASTER, or start what should be there")
        )
        raise TierFailed(f"Spark did not start {where} ({reason_of(error)}): {remedy}") from None


def _placed(name: str, place: Place, executors: Executors, java: str) -> dict[str, str]:
    if place.master is None:
        return on_this_machine(name, executors.slots * executors.count, java)
    if not place.in_pods or place.pod is None:
        return {**on_a_cluster(name, place.master, java), **executors_environment(os.environ)}
    return {**in_pods(name, place.master, java, place.pod, executors), **executors_environment(os.environ)}


def _logging(whose: Whose) -> str:
    """What Java logs is lines of JSON too, where no person is looking."""
    if sys.stderr.isatty():
        return f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
    settings = LOG_SETTINGS.with_name("log4j2-tier.properties")
    return f"-Dlog4j2.configurationFile={settings} -Dbiclique.query={whose.query} -Dbiclique.tier={whose.tier}"
