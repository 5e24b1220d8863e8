"""Spark on this machine: one Java process whose tasks read the files. Starts in the background while Python warms up.

What it writes goes to a file of its own, which is named when something fails; its Java process ends with ours, however
that ends (it watches the pipe that we hold), and pays no heed to Ctrl-C, which is for us.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from biclique.hosts.file_task import ReadTask, run_tasks
from biclique.hosts.spark_settings import (
    LOG_SETTINGS,
    on_this_machine,
    refuse_without_java,
    say_nothing_of_accumulators,
)

JAVA = f"-Dlog4j2.configurationFile={LOG_SETTINGS} -XX:TieredStopAtLevel=1"


class SparkFailed(Exception):
    """Spark, not the query, is at fault; the sentence names the log."""


class Spark:
    """`slots`: tasks that may run at once; every source needs one, or one would wait for another's end."""

    def __init__(self, slots: int, log: Path) -> None:
        refuse_without_java()
        self._slots, self._log = slots, log
        self._context: Any = None
        self._failure: str | None = None
        self.start_seconds = 0.0
        self._starting = threading.Thread(target=self._start, name="spark-start", daemon=True)
        self._starting.start()

    def _start(self) -> None:
        began = time.monotonic()
        try:
            from pyspark import SparkConf, SparkContext
            from pyspark.java_gateway import launch_gateway

            settings = on_this_machine("biclique", self._slots, JAVA)
            conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
            with self._log.open("ab") as log:
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log, "start_new_session": True})
            self._context = SparkContext(gateway=gateway, conf=conf)
            say_nothing_of_accumulators(self._context)
            # A task with nothing to do in each slot: its Python worker starts, imports what reading takes, and stays.
            self._context.parallelize([], self._slots).foreachPartition(run_tasks)
        except Exception as error:  # whatever Spark raises, the user needs one sentence and the log
            self._failure = f"Spark did not start: {str(error).splitlines()[0]} (see {self._log})"
        self.start_seconds = time.monotonic() - began

    def wait(self) -> None:
        self._starting.join()
        if self._failure:
            raise SparkFailed(self._failure)

    def submit(self, task: ReadTask, failed: Callable[[str], None]) -> None:
        """Returns at once; `failed` is called from another thread if the task ends badly."""

        def run() -> None:
            try:
                self._context.parallelize([task.to_json()], 1).foreachPartition(run_tasks)
            except Exception as error:  # whatever Spark raises: nobody waits in this thread, so the engine is told
                failed(f"a reading task failed: {str(error).splitlines()[0]} (see {self._log})")

        threading.Thread(target=run, name=f"spark-task-{task.number}", daemon=True).start()

    def stop(self) -> None:
        self._starting.join()
        if self._context is not None:
            self._context.stop()
            self._context._gateway.shutdown()
