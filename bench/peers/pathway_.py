"""Pathway, in an environment of its own. The underscore keeps the package's name free.

Its best honest number: bounded CSV files in, CSV out, one epoch (static mode), a thread for each core. The band is
its own `interval_join`, which is the bucket rewrite built in. Inequalities alone are not asked of it: a cross join
with a filter keeps the whole product in memory.
"""

from __future__ import annotations

import os
from pathlib import Path

from contract import CORES, REACH, drive

os.environ["PATHWAY_THREADS"] = str(CORES)

import pathway as pw


class Keys(pw.Schema):
    serial: int
    a: int


def join(workload: str, data: Path, output: Path) -> None:
    pw.internals.parse_graph.G.clear()
    r, s = (pw.io.csv.read(str(data / "csv" / side), schema=Keys, mode="static") for side in ("r", "s"))
    if workload == "equality":
        pairs = r.join(s, r.a == s.a).select(r_id=r.serial, s_id=s.serial)
    else:
        band = pw.temporal.interval(-REACH, REACH)
        pairs = r.interval_join(s, r.a, s.a, band).select(r_id=r.serial, s_id=s.serial)
    pw.io.csv.write(pairs, str(output / "pairs.csv"))
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    drive("Pathway", pw.__version__, f"CSV to CSV, static mode, {CORES} threads; band by interval_join", join)
