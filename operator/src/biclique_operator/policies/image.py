"""Which image a query's pods get where its manifest names none: the one that it runs with, until its user asks for
another. So a driver that ends after an upgrade of the installation comes back beside the others as it was, and a new
version is met when somebody looks on."""

from __future__ import annotations

from biclique_operator.observed import Observed, Raw
from biclique_operator.policies.attempts import Phase
from biclique_operator.policies.situation import Situation

KEYS = ("image", "restarted")  # of a status
WORD_MAX = 200  # of the annotation's value: so much of it tells one from another


def image_of(observed: Observed, installed: str) -> str:
    """`installed`: the installation's of today; of a query that has never run whole, too, since the image that it was
    begun with may be what keeps it from running."""
    kept = observed.status.get("image")
    return str(kept) if kept and observed.status.get("restarted", "") == _word(observed) else installed


def image_noted(situation: Situation) -> Raw:
    """What a status says of it. Anew when all of it runs and nothing is on its way."""
    before = situation.observed.status
    runs = situation.attended and all(each.phase is Phase.READY for _, each in situation.attended)
    if not runs or situation.rolling:
        return {key: before[key] for key in KEYS if key in before}
    images = [each.pod.image for driver, each in situation.attended if each.pod is not None and not driver.pods.image]
    return {"image": images[0], "restarted": _word(situation.observed)} if any(images[:1]) else {}


def _word(observed: Observed) -> str:
    return observed.restart[:WORD_MAX]
