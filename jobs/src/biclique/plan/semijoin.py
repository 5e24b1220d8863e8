"""The cost model of the semijoin paper (section 5.1), and what blocks make of it.

S1 is shipped to where S2 is; W1 and W2 are what is stored of each. A stream is shipped whole (1), or keys first, and on
a match the whole tuple (2). The paper's (2) takes the probability p1 twice where a tuple of S2 finds stored ones: the
number of tuples it finds, |W1| / dV, is an expectation already. `keys_first` counts it once (2'), `published` twice.

    (1)    l1 (l + dF/B)
    (2')   l1 [l + dP/B + p2 (2l + (dP + dF)/B)]  +  l2 (1 - p2) [p1 (2l + dP/B) + |W1|/dV dF/B]

where l1, l2 are rates, l the latency and B the rate of the link, dF and dP the bytes of a tuple and of its keys, and
p_i = 1 - (1 - 1/dV)^|Wi| the probability of finding a match in W_i. Here 1/dV is the share of pairs that match, so that
any predicate has one.

The paper ships tuple by tuple. Ours is shipped to every unit that stores or is probed, and fetched in blocks: a block
of b rows is read where one of its rows at least is wanted, so a wanted row costs (1 - (1 - w)^b) / w rows where each is
wanted with probability w.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """With no latency and a byte a second a cost is the number of bytes."""

    latency_s: float = 0.0
    bytes_per_s: float = 1.0


BYTES = Link()
BLOCK_BYTES = 16 << 10  # of a block of a source whose payload may be fetched: how much is read for one row at least


@dataclass(frozen=True, slots=True)
class Shipped:
    """S1 is the stream of this; `share`: of all pairs that match."""

    rate: float
    rows: float
    other_rate: float
    other_rows: float
    share: float
    whole_bytes: float  # of a tuple
    keys_bytes: float
    units: float = 1.0  # that a tuple is sent to
    fetching: float = 1.0  # units that may fetch its payload
    block_rows: float = 1.0

    @property
    def found(self) -> float:
        """p2: a new tuple finds a match."""
        return chance(self.share, self.other_rows)

    @property
    def finding(self) -> float:
        """p1: a tuple of the other stream finds a match among these."""
        return chance(self.share, self.rows)

    @property
    def wanted(self) -> float:
        """How often a tuple's payload is wanted: when it is new, and by those of the other stream that find it."""
        stored = self.other_rate * (1 - self.found) * self.share * self.rows
        return self.found + stored / self.rate

    @property
    def rows_read(self) -> float:
        """For each that is wanted."""
        return rows_read(min(self.wanted / self.fetching, 1.0), self.block_rows)


def chance(share: float, rows: float) -> float:
    none: float = (1 - min(share, 1.0)) ** rows
    return 1 - none


def rows_read(wanted: float, block_rows: float) -> float:
    return block_rows if wanted <= 1e-12 else (1 - (1 - wanted) ** block_rows) / wanted


def whole(shipped: Shipped, link: Link = BYTES) -> float:
    """(1), to all units."""
    return shipped.units * shipped.rate * (link.latency_s + shipped.whole_bytes / link.bytes_per_s)


def keys_first(shipped: Shipped, link: Link = BYTES) -> float:
    """(2'), the keys to all units."""
    return _keys_first(shipped, link, 1.0)


def published(shipped: Shipped, link: Link = BYTES) -> float:
    """(2) as printed."""
    return _keys_first(shipped, link, shipped.finding)


def _keys_first(shipped: Shipped, link: Link, again: float) -> float:
    latency, keys = link.latency_s, shipped.keys_bytes / link.bytes_per_s
    fetched = shipped.rows_read * shipped.whole_bytes / link.bytes_per_s
    new = shipped.found * (2 * latency + keys + fetched)
    stored = shipped.finding * (2 * latency + keys) + again * shipped.share * shipped.rows * fetched
    return shipped.rate * (shipped.units * (latency + keys) + new) + shipped.other_rate * (1 - shipped.found) * stored
