"""How many dispatchers and mergers.

Files: one dispatcher for each source, so that what counts as late depends on the order of its files alone and not on
how two sources are read side by side. Kafka: `topics.partitions`.

Mergers: one where results of several units meet again (aggregates, DISTINCT), none where a pair goes straight to the
output. No key of the manifest asks for more, on purpose: a unit sends its share of each group once a step, not a row
for each pair, so a merger has little to do; and the number could not be changed later, since a group is a merger's by
its hash and its state would have to move. The tiers take any number that a plan says where there are groups to divide
(without GROUP BY there is one, and each merger would write it), so a planner that has a reason may say more;
tests/unit/hosts/test_mergers.py holds them to it.
"""

from __future__ import annotations

from dataclasses import replace

from biclique.core.stamps import DISPATCHERS_MAX
from biclique.plan.draft import Draft
from biclique.plan.model import Reason, Topic
from biclique.query.model import Kafka


def tiers(draft: Draft) -> Draft:
    query = draft.query
    if any(isinstance(source.input, Kafka) for source in query.sources):
        dispatchers, why = query.hints.partitions, "topics.partitions"
        assert 1 <= dispatchers <= DISPATCHERS_MAX
    else:
        dispatchers, why = len(query.sources), "one for each source of files"
    merging = query.aggregating or query.distinct
    merger = (
        "1 merger: results of several units meet again" if merging else "no merger: pairs go straight to the output"
    )
    plural = "s" if dispatchers > 1 else ""
    return replace(draft, dispatchers=dispatchers, mergers=int(merging)).because(
        Reason(Topic.TIERS, f"{dispatchers} dispatcher{plural} ({why}); {merger}")
    )
