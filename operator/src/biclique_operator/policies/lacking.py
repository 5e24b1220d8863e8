"""What keeps every pod of a query from beginning: something that pods need, and that the API did not take, as where a
quota or a policy of the cluster's says no. What they do not need is missed, and keeps none."""

from __future__ import annotations

from collections.abc import Mapping

from biclique_operator.desired.all import KINDS
from biclique_operator.observed import Observed

READ = ("ConfigMap", "Secret")
REMOVAL = "removal-of"
BESIDE = ("Service", "PodDisruptionBudget", REMOVAL)  # of use to people and nodes; a pod runs without them


def called(kind: str, name: str) -> str:
    """Among refusals, where pods are called by their names alone."""
    return f"{kind} {name}"


def removing(name: str) -> str:
    """Of a pod, or of what else is no longer wanted: it stays for as long as its removal is refused."""
    return f"{REMOVAL} {name}"


def is_removal(what: str) -> bool:
    return what.startswith(f"{REMOVAL} ")


def is_beside(what: str) -> bool:
    """Whether that which was refused holds up nothing."""
    return what.partition(" ")[0] in BESIDE


def lacking(observed: Observed, refusals: Mapping[str, tuple[int, str]]) -> tuple[int, str] | None:
    """Why none may begin. What stands there as it was before will do, unless it is read: a pod is made for what is to
    stand there."""
    for what, refusal in refusals.items():
        kind, _, name = what.partition(" ")
        if is_beside(what):
            continue
        if kind in READ or (kind in KINDS and observed.object(kind, name) is None):
            return refusal
    return None
