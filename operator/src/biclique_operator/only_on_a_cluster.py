"""What a cluster asks of a manifest beside what `biclique validate` does, each as a problem and its remedy: the API
server says it when the manifest is applied (crd/rules.py), and where its definitions are older or somebody else's, the
operator does in the same words (checked.py)."""

from __future__ import annotations

# Of a source's block, or the output's.
FILES = "has files, which pods do not see", "name a topic under kafka, or use `biclique run`"
# Two addresses follow the problem.
BROKERS = "bootstrapServers differ", "read and write topics of one cluster, and write its addresses alike"
STORE = (
    "no store of checkpoints is named",
    "write state: {redis: {url: redis://...}}, or state: {durable: ...}",
)
