"""What a unit is told with its orders: the time of its last transaction, and how far its readers have come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from biclique.hosts.units.checkpoints import Checkpoints
from biclique.hosts.units.condition import Conditions
from biclique.hosts.units.memory import ProcessMemory
from biclique.hosts.units.outside import Outside
from biclique.plan.table import first_table
from biclique.ports.control_folder import ControlFolder
from biclique.tiers.dispatcher import dispatcher_producer
from biclique.tiers.effects import Commit, Consult, Effect, Outcome
from biclique.tiers.inbox import joiner_producer
from biclique.tiers.loops import Watch
from biclique.tiers.messages import Producer
from biclique.tiers.pressure import Pressure
from biclique.tiers.progress import DispatcherProgress, JoinerProgress, Progress
from tests.unit.tiers.building import plan

MADE = replace(plan("SELECT r.k FROM r JOIN s ON r.k = s.k"), dispatchers=1)
ME = dispatcher_producer(0)
COMMIT = Commit(ME, ME, (), DispatcherProgress())


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Readers:
    """Whose progress is as the test says."""

    def __init__(self) -> None:
        self.known: dict[Producer, Progress] = {}

    def progress(self, owners: Sequence[Producer]) -> list[Progress | None]:
        return [self.known.get(owner) for owner in owners]


def test_a_unit_is_told_what_its_last_transaction_took_and_how_far_its_slowest_reader_is(tmp_path: Path) -> None:
    clock, control, readers, watch = Clock(), ControlFolder(tmp_path), Readers(), Watch()
    memory = ProcessMemory(None, clock)
    conditions = Conditions(control, "dispatcher", "0", None, memory, clock)
    outside = Outside(
        MADE,
        ME,
        control,
        Checkpoints(10.0, clock),
        conditions,
        memory,
        readers,  # type: ignore[arg-type]
        watch,
        clock,
    )
    assert outside.orders().reached is None, "there is no table yet"
    table = first_table(MADE)
    control.publish(table)
    units = [joiner_producer(unit) for unit in table.units()]
    assert outside.orders().reached is None, "nobody has been seen"
    readers.known = {unit: JoinerProgress(0, 5 + number) for number, unit in enumerate(units)}
    orders = outside.orders()
    assert (orders.reached, orders.commit_ms, orders.pressure, orders.stop) == (5, 0, Pressure.NONE, False)

    def perform(effect: Effect) -> object:
        clock.now += 0.25
        return Outcome.COMMITTED if isinstance(effect, Commit) else None

    timed = outside.timed(perform)
    assert timed(COMMIT) is Outcome.COMMITTED and timed(Consult()) is None
    assert outside.orders().commit_ms == 250
    clock.now += 10
    assert outside.orders().seal
    control.stop()
    clock.now += 10
