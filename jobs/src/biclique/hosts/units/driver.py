"""A tier's Spark application: one job of one task for each unit, as long-lived as the query.

Placement is Spark's: in `local[n]` the tasks are Python processes of this machine, elsewhere executor pods. Spark's own
retries of a task are off: a unit that fails is started again here, as a new job, within a budget that is the unit's own
and that a healthy run resets.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from biclique.hosts.units.process import run_unit
from biclique.hosts.units.restarts import Restarts
from biclique.hosts.units.spec import UnitSpec
from biclique.tiers.effects import End

LOG = logging.getLogger(__name__)
GO_ON = (End.UNKNOWN,)  # of the ways in which a loop ends by itself, the one after which it is started again


class CrashLoop(Exception):
    """A unit failed as often as its budget allows; the sentence has its last failure."""


def run_specs(specs: Iterator[str]) -> Iterator[str]:
    """What a task does: one unit."""
    for text in specs:
        yield run_unit(UnitSpec.from_json(text)).value


class TierDriver:
    """`context`: a SparkContext with a slot for each unit."""

    def __init__(self, context: Any, specs: Sequence[UnitSpec], stopping: Callable[[], bool]) -> None:
        self._context, self._specs, self._stopping = context, specs, stopping
        self._failure: CrashLoop | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        """Until every unit has ended. Raises CrashLoop when one of them cannot be kept running."""
        threads = [threading.Thread(target=self._keep, args=(spec,), name=spec.name) for spec in self._specs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure is not None:
            raise self._failure

    def _keep(self, spec: UnitSpec) -> None:
        restarts = Restarts()
        while self._failure is None:
            began, reason = time.monotonic(), ""
            try:
                (ended,) = self._context.parallelize([spec.to_json()], 1).mapPartitions(run_specs).collect()
                if End(ended) not in GO_ON:
                    LOG.info("unit ended", extra={"unit": f"{spec.tier} {spec.name}", "why": ended})
                    return
                reason = ended
            except Exception as error:  # whatever broke the task: its executor, its Python worker, or its own exception
                reason = str(error).strip().splitlines()[-1][:500]
            if self._stopping():
                return
            wait_s = restarts.after(time.monotonic() - began)
            if wait_s is None:
                self._failure = CrashLoop(f"{spec.tier} {spec.name} failed {restarts.used + 1} times: {reason}")
                self._ended.set()
                return
            LOG.warning("unit failed", extra={"unit": f"{spec.tier} {spec.name}", "why": reason, "again_in_s": wait_s})
            self._ended.wait(wait_s)
