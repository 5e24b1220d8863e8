"""A unit's memory as its host sees it, from files as the kernel writes them; what each tier's units may take; and the
sentence about one that stands still."""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from biclique.hosts.units import limits
from biclique.hosts.units.condition import MOMENT_S, Conditions
from biclique.hosts.units.memory import CLIENTS_BYTES, LOOK_S, Group, Kernel, ProcessMemory, release
from biclique.plan.model import Plan
from biclique.plan.table import first_table
from biclique.ports.control import State
from biclique.ports.control_folder import ControlFolder
from biclique.tiers.joiner import Joiner
from biclique.tiers.joiner_limits import limits_within
from biclique.tiers.loops import Watch
from biclique.tiers.pressure import MemoryBudget, Pressure
from biclique.tiers.progress import start_of
from tests.unit.tiers.building import plan

MB = 1 << 20
JOIN = "SELECT r.k FROM r JOIN s ON r.k = s.k"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Machine:
    """The kernel's files, with numbers of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.groups = folder / "proc", folder / "cgroup"
        self.proc.mkdir()
        self.resident(100 * MB)
        self.kernel = Kernel(self.proc, self.groups)

    def resident(self, size: int) -> None:
        (self.proc / "statm").write_text(f"999999 {size // os.sysconf('SC_PAGE_SIZE')} 1 1 0 1 0\n")

    def second_version(self, path: str, limit: str, used: int, inactive: int = 0) -> None:
        (self.proc / "cgroup").write_text(f"0::{path}\n")
        place = self.groups / path.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        for name, value in (("max", limit), ("current", used), ("stat", f"anon 1\ninactive_file {inactive}")):
            (place / f"memory.{name}").write_text(f"{value}\n")

    def first_version(self, path: str, limit: int, used: int, inactive: int = 0) -> None:
        (self.proc / "cgroup").write_text(f"5:cpu:/\n4:memory:{path}\n0::{path}\n")
        place = self.groups / "memory" / path.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        for name, value in (
            ("limit_in_bytes", limit),
            ("usage_in_bytes", used),
            ("stat", f"inactive_file 7\ntotal_inactive_file {inactive}"),
        ):
            (place / f"memory.{name}").write_text(f"{value}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_limit_of_either_version_is_found_and_pages_of_files_do_not_count(machine: Machine) -> None:
    assert machine.kernel.group() is None
    machine.second_version("/pods/one", str(1000 * MB), 950 * MB, inactive=200 * MB)
    assert machine.kernel.group() == Group(750 * MB, 1000 * MB)
    machine.first_version("/pods/two", 500 * MB, 450 * MB, inactive=50 * MB)
    assert machine.kernel.group() == Group(400 * MB, 500 * MB)


def test_no_limit_is_no_group_and_one_further_up_counts(machine: Machine) -> None:
    machine.second_version("/pods/one", "max", 950 * MB)
    assert machine.kernel.group() is None
    machine.second_version("/pods", str(2000 * MB), 1900 * MB)
    (machine.proc / "cgroup").write_text("0::/pods/one\n")
    assert machine.kernel.group() == Group(1900 * MB, 2000 * MB)
    machine.first_version("/", (1 << 63) - 4096, 950 * MB)
    assert machine.kernel.group() is None


@pytest.mark.parametrize(("used", "pressure"), [(840, 0), (850, 1), (900, 2), (949, 2), (950, 3), (1000, 3)])
def test_near_the_limit_of_its_group_a_unit_is_pressed(machine: Machine, used: int, pressure: int) -> None:
    machine.second_version("/", str(1000 * MB), used * MB)
    assert ProcessMemory(None, Clock(), machine.kernel).pressure() is Pressure(pressure)


def test_what_the_count_misses_sheds_and_does_not_stand(machine: Machine) -> None:
    clock = Clock()
    memory = ProcessMemory(MemoryBudget(64 * MB), clock, machine.kernel)
    machine.resident(100 * MB + 64 * MB + CLIENTS_BYTES)
    assert memory.pressure() is Pressure.NONE
    machine.resident(10_000 * MB)
    assert memory.pressure() is Pressure.NONE, "it looks now and then"
    clock.now += LOOK_S
    assert memory.pressure() is Pressure.SHED
    machine.resident(100 * MB)
    clock.now += LOOK_S
    assert memory.pressure() is Pressure.NONE


def test_this_machine_is_understood() -> None:
    before = Kernel().resident()
    held = np.ones(50 * MB, np.uint8)
    grown = Kernel().resident() - before
    assert held.all() and 40 * MB < grown < 80 * MB
    del held
    release()
    assert Kernel().resident() - before < 20 * MB


# --- what each tier's units may take ---------------------------------------------------------------------------------


def made(joiners: str = "2Gi", tiers: str = "1Gi", executors: int = 1, partitions: int = 4, merger: str = "") -> Plan:
    extra = (
        f"  joiners: {{memory: {joiners}}}\n"
        f"  tiers: {{memory: {tiers}, executors: {executors}, merger: {{{merger}}}}}\n"
    )
    return replace(plan(JOIN, extra=extra), dispatchers=partitions)


def test_a_joiner_has_its_own_and_the_others_share_their_tiers_pods() -> None:
    assert limits.budget_of(made(joiners="3Gi"), "joiner").bytes == 3072 * MB
    assert limits.budget_of(made(), "dispatcher").bytes == 64 * MB, "a quarter, where the program leaves less"
    assert limits.budget_of(made(partitions=1), "dispatcher").bytes == 768 * MB
    assert limits.budget_of(made(executors=4), "dispatcher").bytes == 768 * MB
    assert limits.budget_of(made(executors=0, partitions=2), "dispatcher").bytes == 256 * MB
    assert limits.budget_of(made(merger="memory: 2Gi, executors: 2"), "merger").bytes == 4096 * MB - (256 * MB)


@pytest.mark.parametrize("memory", ["1Mi", "16Mi", "256Mi", "2Gi", "64Gi"])
@pytest.mark.parametrize("partitions", [1, 4, 16])
def test_what_all_dispatchers_send_in_one_epoch_is_a_step_of_a_unit(memory: str, partitions: int) -> None:
    given = made(joiners=memory, partitions=partitions)
    units, step = len(first_table(given).units()), limits.budget_of(given, "joiner").step_bytes
    sent = limits.turn_bytes(given)
    assert sent <= limits.BYTES
    assert sent == limits.TURN_BYTES_MIN or sent // units * partitions <= step
    halved = limits.reads(2, given)
    assert halved.turn_bytes == sent // 4


def test_a_small_budget_bounds_transactions_and_a_great_one_changes_nothing() -> None:
    small, great = limits.joining(0, MemoryBudget(64 * MB)), limits.joining(0, MemoryBudget(1 << 40))
    assert (small.batch_max.bytes, small.held_max.bytes) == (4 * MB, 2 * MB)
    assert (great.batch_max.bytes, great.batch_max.matches) == (limits.BYTES, limits.MATCHES)
    assert limits.joining(3, MemoryBudget(1 << 40)).batch_max.bytes == limits.BYTES // 8
    assert limits.writing(0, MemoryBudget(64 * MB)).bytes == 4 * MB


# --- what is said ----------------------------------------------------------------------------------------------------


def standing(budget: int) -> tuple[Watch, Joiner]:
    one = replace(plan(JOIN), dispatchers=1)
    table = first_table(one)
    unit = table.units_of_stage(0)[0]
    joiner = Joiner(one, unit, start_of(unit, table, 0), None, limits_within(MemoryBudget(budget)))
    watch = Watch()
    watch.joiner = joiner
    return watch, joiner


def test_a_unit_that_stands_for_longer_than_a_moment_says_so_once_and_when_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, machine: Machine
) -> None:
    control, clock, (watch, joiner) = ControlFolder(tmp_path / "control"), Clock(), standing(MB)
    memory = ProcessMemory(MemoryBudget(MB), clock, machine.kernel)
    said = Conditions(control, "joiner", "0L0.0", MemoryBudget(MB), memory, clock)
    joiner.inbox.bytes_held = MB  # as if rows were there
    with caplog.at_level(logging.INFO):
        joiner.pressed.standing = True
        said.look(watch)
        assert control.conditions() == {}
        for _ in range(5):
            clock.now += MOMENT_S
            said.look(watch)
        told = control.conditions()["joiner 0L0.0"]
        assert told.state is State.STANDS
        assert told.why.startswith("what it holds takes 1.05 MB of 1.05 MB (joiners.memory), and there is no room")
        assert "give it more memory (joiners.memory)" in told.why
        joiner.pressed.standing = False
        said.look(watch)
        said.look(watch)
    assert control.conditions() == {}
    assert [r.getMessage()[:24] for r in caplog.records] == ["joiner 0L0.0 stands stil", "joiner 0L0.0 has room ag"]


def test_where_the_pod_is_full_the_sentence_says_so(tmp_path: Path, machine: Machine) -> None:
    control, clock, (watch, joiner) = ControlFolder(tmp_path / "control"), Clock(), standing(MB)
    machine.second_version("/", str(1000 * MB), 990 * MB)
    memory = ProcessMemory(MemoryBudget(MB), clock, machine.kernel)
    assert memory.pressure() is Pressure.STAND
    said = Conditions(control, "joiner", "0L0.0", MemoryBudget(MB), memory, clock)
    joiner.pressed.standing = True
    said.look(watch)
    clock.now += MOMENT_S
    said.look(watch)
    assert control.conditions()["joiner 0L0.0"].why.startswith("its processes use 1.04 GB of the 1.05 GB")
    Conditions(control, "joiner", "0L0.0", MemoryBudget(MB), memory, clock)
    assert control.conditions() == {}, "a new start is a clean slate"
