"""Something that must be done before a tier can run, tried until Kafka answers.

It is tried as long as it takes: a broker that comes back after an hour finds its query going on, and whoever waits at a
terminal has read what is wrong and may press Ctrl-C. What Kafka says and nobody knows how to take is tried as often as
a unit that fails (restarts.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from biclique.hosts.units.restarts import Restarts, Saying
from biclique.ports.refusals import Refused, Unreachable

LOG = logging.getLogger(__name__)
LOOK_S = 0.2
REMEDY = "the tier goes on by itself once it answers, or with a corrected address in the manifest"


def patiently(
    action: Callable[[], None], stopping: Callable[[], bool], say: Callable[[str], None] = lambda why: None
) -> bool:
    """False: it was to stop before it was done. `say`: what is waited for, to whoever looks."""
    restarts, saying, began = Restarts(), Saying(), time.monotonic()
    while not stopping():
        try:
            action()
        except Unreachable as trouble:
            say(f"{trouble}; {REMEDY}")
            wait_s = restarts.after_wait(0.0)
            if saying.is_due(str(trouble), time.monotonic()):
                waited_s = time.monotonic() - began
                told = {"event": "kafka.away", "waited_s": round(waited_s), "wait_s": wait_s}
                LOG.warning(
                    "%s; waited %.0f s, and trying again for as long as it takes", trouble, waited_s, extra=told
                )
            _wait(wait_s, stopping)
        except KafkaException as failure:
            said = failure.args[0].str()
            pause_s = restarts.after_failure(0.0)
            if pause_s is None:
                raise Refused(
                    f"Kafka has failed {restarts.used + 1} times in a row ({said}): its own log says why; start the"
                    " tier again when that is mended"
                ) from None
            _wait(pause_s, stopping)
        else:
            return True
    return False


def _wait(seconds: float, stopping: Callable[[], bool]) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not stopping():
        time.sleep(LOOK_S)
