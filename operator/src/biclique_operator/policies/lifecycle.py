"""What becomes of a changed manifest: taken over, taken over but for the number of units, or refused as a whole.

State that has begun means what the manifest meant then. What the query began with is in its routing ConfigMap, written
by its first tier before the first table; the tiers compare it at every start, and so does this, with the same sentence,
before anything that runs is touched.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from biclique.plan.fingerprint import changed, fingerprint
from biclique_operator.checked import Checked, Invalid, check, manifest_text
from biclique_operator.policies import reasons

LOST = (
    "the query has begun, and its routing tables are gone. Nothing is started, and what runs was not touched: "
    "restore it as it was, labels included, or delete the query and apply it under another name"
)
UNITS = ("replicas", "minReplicas", "maxReplicas")


@dataclass(frozen=True)
class Course:
    """`runs`: the manifest that the tiers have, or get; None: there is none to run. `refused`: why the one that is
    wanted is not it, as reason and sentence. `held`: why its number of units is not."""

    runs: Checked | None
    refused: tuple[str, str] | None = None
    held: str | None = None


def course_of(
    name: str, spec: dict[str, Any], applied: str | None, began: str | None, lost: str | None = None
) -> Course:
    """`applied`: the text that the tiers were given. `began`: what they noted when the query began. `lost`: the
    ConfigMap where that stood, if it stands there no more."""
    wanted = check(manifest_text(name, spec))
    before = None if applied is None else check(applied)
    runs = before if isinstance(before, Checked) else None
    if lost is not None:
        # Without it no change can be told from another query, so none is followed, and none is judged.
        return Course(runs, (reasons.ROUTING_LOST, f"ConfigMap {lost}: {LOST}"))
    if isinstance(wanted, Invalid):
        return Course(runs, (reasons.INVALID_MANIFEST, wanted.sentence))
    if began is None:
        return Course(wanted)
    held = None
    if runs is not None and wanted.spec.joiners.replicas != runs.spec.joiners.replicas:
        held = (
            f"spec.joiners.replicas: {runs.spec.joiners.replicas} units are kept in place of "
            f"{wanted.spec.joiners.replicas}; a running query does not change their number yet"
        )
        wanted = check(manifest_text(name, _with_units_of(spec, applied)))
        if isinstance(wanted, Invalid):
            return Course(runs, (reasons.INVALID_MANIFEST, wanted.sentence), held)
    if (sentence := changed(_noted(began, wanted), fingerprint(wanted.plan))) is not None:
        return Course(runs, (reasons.CHANGE_REFUSED, sentence), held)
    return Course(wanted, None, held)


def _with_units_of(spec: dict[str, Any], applied: str | None) -> dict[str, Any]:
    """The three numbers stand in relation to each other, so they are kept together."""
    assert applied is not None, "units are held where something runs"
    before = json.loads(applied)["spec"].get("joiners") or {}
    joiners = {key: value for key, value in (spec.get("joiners") or {}).items() if key not in UNITS}
    return {**spec, "joiners": {**joiners, **{key: before[key] for key in UNITS if key in before}}}


def _noted(began: str, now: Checked) -> dict[str, str]:
    """Without what only a tier can look at: which cluster answers, and which topics are there."""
    known = fingerprint(now.plan)
    return {key: value for key, value in json.loads(began).items() if key in known or not _of_servers(key)}


def _of_servers(key: str) -> bool:
    return key.startswith("topic ") or key == "spec.output.kafka.bootstrapServers"
