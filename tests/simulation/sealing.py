"""Whether every unit has come to a checkpoint of all that it has handled: whatever a store went through, once it works
again what it lacks is sealed again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.simulation.faulty_store import FaultyStore
from tests.simulation.process import Process


def unsealed(store: FaultyStore, processes: Iterable[Process]) -> Iterator[str]:
    """Asked when the faults are over, all that there is has been handled, and a checkpoint was asked for."""
    for process in processes:
        logic = process.watch.joiner or process.watch.merger
        if logic is not None:
            newest = [manifest.frontier for manifest in store.load(process.producer)[:1]]
            if newest != [logic.progress.frontier]:
                yield f"{process.producer} is at {logic.progress.frontier}, and its newest manifest at {newest}"
