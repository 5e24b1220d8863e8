"""Chance without randomness: a number that looks random and is a function of what it is drawn for.

A routing decision must be repeated exactly by a replay, so "pick any unit" means "pick by a mix of the tuple's id".
Each use has a salt of its own: were the subgroup and the unit inside it drawn from one number, the units of a
subgroup would get unequal shares whenever the two counts have a common divisor.

`mixed` is the finaliser of SplitMix64: it is a bijection of the 64-bit numbers in which every input bit flips each
output bit about half the time, so ids that follow one another (offsets of a partition) spread evenly over any number
of units.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray


class Salt(Enum):
    SUBGROUP = np.uint64(0x9E3779B97F4A7C15)  # content (or, without content, the id) to subgroup
    UNIT = np.uint64(0xD1B54A32D192ED03)  # id to unit of the subgroup, or to row or column of a join-matrix


_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31)


def mixed(values: NDArray[np.uint64], salt: Salt) -> NDArray[np.uint64]:
    z = values + salt.value
    z ^= z >> _SHIFTS[0]
    z *= _FIRST
    z ^= z >> _SHIFTS[1]
    z *= _SECOND
    z ^= z >> _SHIFTS[2]
    return z


def draw(values: NDArray[np.uint64] | NDArray[np.int64], count: int, salt: Salt) -> NDArray[np.int64]:
    """For each value one of 0 … count-1, by the value alone."""
    assert count > 0
    if count == 1:
        return np.zeros(len(values), np.int64)
    assert count < 1 << 32
    # The high half times the count, shifted down: as even as a remainder, and several times faster.
    return (((mixed(values.view(np.uint64), salt) >> _HALF) * np.uint64(count)) >> _HALF).astype(np.int64)
