"""An array that grows at its end.

Small, it is an array that doubles. From MAPPED_BYTES_MIN on it is private memory of its own, reserved twice as large as
needed and grown by remapping: the system gives pages only where something was written, so the reserve costs nothing,
and no growth copies what is there. Remapping is refused while anyone still holds an array over the memory; then, and
where the system cannot remap, the buffer moves to new memory and the array that was handed out stays what it was.
"""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

ENTRIES_FIRST = 64
MAPPED_BYTES_MIN = 1 << 20
HUGE_PAGES_BYTES_MIN = 1 << 25  # from here on fewer, larger pages: rows are gathered at random
HUGE_PAGE_BYTES = 1 << 21


class Buffer:
    __slots__ = ("_data", "_memory", "length")

    def __init__(self, dtype: DTypeLike) -> None:
        self._data: NDArray[Any] = np.empty(0, dtype)
        self._memory: mmap.mmap | None = None
        self.length = 0

    @property
    def values(self) -> NDArray[Any]:
        return self._data[: self.length]

    @property
    def nbytes(self) -> int:
        """What is in use: all of a small array, the written pages of mapped memory."""
        if self._memory is None:
            return int(self._data.nbytes)
        page = HUGE_PAGE_BYTES if self._data.nbytes >= HUGE_PAGES_BYTES_MIN else mmap.PAGESIZE
        return min(-(-self.length * self._data.itemsize // page) * page, len(self._memory))

    def extend(self, values: NDArray[Any]) -> None:
        start, stop = self.length, self.length + len(values)
        if stop > len(self._data):
            self._grow(stop)
        self._data[start:stop] = values
        self.length = stop

    def trim(self) -> None:
        """No more entries will come: give a small array's slack back."""
        if self._memory is None and self.length < len(self._data):
            self._data = self.values.copy()

    def _grow(self, needed: int) -> None:
        dtype = self._data.dtype
        entries = max(needed, 2 * self.length, ENTRIES_FIRST)
        size = entries * dtype.itemsize
        if size < MAPPED_BYTES_MIN:
            data = np.empty(entries, dtype)
            data[: self.length] = self.values
            self._data = data
            return
        if self._memory is not None and self._remap(size):
            return
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        _ask_for_huge_pages(memory)
        data = np.frombuffer(memory, dtype)
        data[: self.length] = self.values
        self._memory, self._data = memory, data

    def _remap(self, size: int) -> bool:
        assert self._memory is not None
        dtype = self._data.dtype
        self._data = np.empty(0, dtype)  # our own array must not stand in the way
        try:
            self._memory.resize(size)
        except (BufferError, SystemError):
            self._data = np.frombuffer(self._memory, dtype)
            return False
        _ask_for_huge_pages(self._memory)
        self._data = np.frombuffer(self._memory, dtype)
        return True


def _ask_for_huge_pages(memory: mmap.mmap) -> None:
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None and len(memory) >= HUGE_PAGES_BYTES_MIN:
        memory.madvise(advice)
