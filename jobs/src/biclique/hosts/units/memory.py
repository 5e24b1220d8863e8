"""What a unit's process takes of this machine's memory, seen from outside: what its loop's own count misses is here.

Two looks. The control group's limit, if there is one, is what the kernel kills for: near it the unit sheds, and stands
still before it is reached, also where a neighbour in the same group has used it up. And what the process has grown by
since it began is held against its budget and what its clients may buffer; more than that does not kill, so it only
sheds. Pages of files that the kernel can take back at once do not count.

Freed memory may stay with the allocators. So the first thing that is done about pressure is to make them give it back.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from biclique.tiers.pressure import MemoryBudget, Pressure

LOOK_S = 0.25
RELEASE_S = 5.0
GROUP_SLOW, GROUP_SHED, GROUP_STAND = 0.85, 0.9, 0.95  # of the limit
CLIENTS_BYTES = 256 << 20  # what Kafka's clients buffer, and kernels that are compiled after the start
UNLIMITED = 1 << 60  # a first version's group says "no limit" by a number of this size


class Group(NamedTuple):
    used: int
    limit: int


@dataclass(frozen=True)
class Kernel:
    """Where the kernel tells of memory."""

    proc: Path = Path("/proc/self")
    groups: Path = Path("/sys/fs/cgroup")

    def resident(self) -> int:
        return int((self.proc / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def group(self) -> Group | None:
        """The nearest limit of the control groups that this process is in; None: there is none."""
        try:
            lines = (self.proc / "cgroup").read_text().splitlines()
        except OSError:
            return None
        found: list[Group] = []
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                found += self._limits(self.groups, path, "memory.max", "memory.current", "inactive_file")
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
                found += self._limits(self.groups / "memory", path, *names)
        return min(found, key=lambda group: group.limit - group.used, default=None)

    def _limits(self, root: Path, path: str, limit_name: str, used_name: str, reclaimable: str) -> list[Group]:
        """Of a group and those that it is in. In a container the own group may be at the root."""
        folder, found = root / path.lstrip("/"), list[Group]()
        for place in (folder, *folder.parents):
            if not place.is_relative_to(root):
                break
            try:
                limit = (place / limit_name).read_text().strip()
                if limit != "max" and int(limit) < UNLIMITED:
                    stat = dict(line.split() for line in (place / "memory.stat").read_text().splitlines())
                    used = int((place / used_name).read_text()) - int(stat.get(reclaimable, 0))
                    found.append(Group(max(0, used), int(limit)))
            except (OSError, ValueError):
                continue
        return found


class ProcessMemory:
    """`budget`: of the unit in this process; None: only the control group counts."""

    def __init__(self, budget: MemoryBudget | None, clock: Callable[[], float], kernel: Kernel | None = None) -> None:
        self._budget, self._clock, self._kernel = budget, clock, kernel or Kernel()
        self._began_with = self._kernel.resident()
        self._looked = self._released = float("-inf")
        self._pressure, self.group = Pressure.NONE, self._kernel.group()

    def pressure(self) -> Pressure:
        now = self._clock()
        if now >= self._looked + LOOK_S:
            self._looked = now
            self._pressure = self._look()
            if self._pressure >= Pressure.SHED and now >= self._released + RELEASE_S:
                self._released = now
                release()
                self._pressure = self._look()
        return self._pressure

    def _look(self) -> Pressure:
        self.group = self._kernel.group()
        if self.group is not None:
            share = self.group.used / self.group.limit
            for least, pressure in (
                (GROUP_STAND, Pressure.STAND),
                (GROUP_SHED, Pressure.SHED),
                (GROUP_SLOW, Pressure.SLOW),
            ):
                if share >= least:
                    return pressure
        if self._budget is not None and self.grown > self._budget.bytes + CLIENTS_BYTES:
            return Pressure.SHED
        return Pressure.NONE

    @property
    def grown(self) -> int:
        return self._kernel.resident() - self._began_with


def release() -> None:
    """What is free goes back to the system."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
