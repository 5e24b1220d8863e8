"""What dispatchers signal: epochs, watermarks and versions only grow, each from where the protocol lets it.

* A watermark says that somebody has come so far: a tuple's time, less its source's lateness. It never goes backwards.
* An epoch is given once, whatever the clock says.
* A routing version is applied above the switch-over point of the one before; an older one is never taken up again.
"""

from __future__ import annotations

from collections.abc import Iterator

from biclique.tiers.messages import TIME_NEVER, Address, Producer, Signal, Topic
from tests.model.evidence import Evidence, Violation

SIGNALS = Address(Topic.SIGNALS, 0)


def signal_violations(evidence: Evidence) -> Iterator[Violation]:
    greatest = _greatest(evidence)
    switch = evidence.tables[-1].switch
    last: dict[Producer, Signal] = {}
    for _, signal in evidence.logs.get(SIGNALS, ()):
        if not isinstance(signal, Signal) or signal.sender.tier != "dispatcher":
            continue
        if signal.watermark > greatest:
            yield Violation("a watermark comes from a tuple", f"{signal}, and no source is beyond {greatest}")
        before = last.get(signal.sender)
        if before is not None and not _grows(before, signal):
            yield Violation("signals only grow", f"{before}, then {signal}")
        if signal.version and signal.first_epoch <= switch.get(signal.version - 1, -1):
            over = switch[signal.version - 1]
            yield Violation("a version begins above the switch-over point", f"{signal}, which is at {over}")
        last[signal.sender] = signal


def _grows(before: Signal, after: Signal) -> bool:
    return before.epoch < after.epoch and before.watermark <= after.watermark and before.version <= after.version


def _greatest(evidence: Evidence) -> int:
    reached = [TIME_NEVER]
    for key, records in evidence.sources.items():
        source = evidence.plan.query.sources[key.source]
        lateness_us = source.event_time.lateness_us
        reached += [record.time - lateness_us for record in records if not record.is_dead(source)]
    return max(reached)
