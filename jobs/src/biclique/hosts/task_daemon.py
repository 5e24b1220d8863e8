"""What Spark's Python workers are forked from: Spark's own daemon, with what a unit and the shuffler's tasks import
already there.

A worker that had to import it all by itself would take two seconds of CPU before it does anything: once for each unit
when a tier starts, and again when one of them is killed. Nothing but modules is made here: clients, threads and
connections do not survive a fork.
"""

from __future__ import annotations

import gc
import os

from pyspark.daemon import manager

import biclique.hosts.shuffle.packing
import biclique.hosts.units.process  # noqa: F401
from biclique.hosts.logs import begin_logging_as_told

if __name__ == "__main__":
    gc.freeze()  # shared by all that are forked, as long as no collection goes through it
    begin_logging_as_told(os.environ)
    manager()
