"""Something that must be done before a tier can run, tried until Kafka answers.

It is tried as long as it takes: a broker that comes back after an hour finds its query going on, and whoever waits at a
terminal has read what is wrong and may press Ctrl-C.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from biclique.hosts.units.restarts import Restarts, Saying
from biclique.ports.refusals import Unreachable

LOG = logging.getLogger(__name__)
LOOK_S = 0.2


def patiently(action: Callable[[], None], stopping: Callable[[], bool]) -> bool:
    """False: it was to stop before it was done."""
    restarts, saying, began = Restarts(), Saying(), time.monotonic()
    while not stopping():
        try:
            action()
        except Unreachable as trouble:
            wait_s = restarts.after_wait(0.0)
            if saying.is_due(str(trouble), time.monotonic()):
                waited_s = time.monotonic() - began
                told = {"event": "kafka.away", "waited_s": round(waited_s), "wait_s": wait_s}
                LOG.warning(
                    "%s; waited %.0f s, and trying again for as long as it takes", trouble, waited_s, extra=told
                )
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline and not stopping():
                time.sleep(LOOK_S)
        else:
            return True
    return False
