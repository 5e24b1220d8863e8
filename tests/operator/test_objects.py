"""Objects of a query beside its pods: they are kept as they are to be, and nobody else's are touched."""

from __future__ import annotations

from biclique_operator.desired.all import KINDS
from tests.operator.stage import Stage


def test_what_was_made_by_an_older_operator_or_changed_by_hand_is_mended() -> None:
    stage = Stage().is_running()
    budget, before = stage.id, sorted(stage.pods())
    stage.cluster.merge("PodDisruptionBudget", "default", budget, {"spec": {"minAvailable": 0}})
    stage.cluster.merge("Role", "default", f"{stage.id}-driver", {"rules": []})
    account = stage.cluster.get("ServiceAccount", "default", f"{stage.id}-driver")
    assert account is not None
    stage.cluster.remove("ServiceAccount", "default", f"{stage.id}-driver", account["metadata"]["uid"])
    stage.settle()
    mended = stage.cluster.get("PodDisruptionBudget", "default", budget)
    assert mended is not None and mended["spec"]["minAvailable"] == 3
    role = stage.cluster.get("Role", "default", f"{stage.id}-driver")
    assert role is not None and role["rules"]
    assert stage.cluster.get("ServiceAccount", "default", f"{stage.id}-driver") is not None
    assert sorted(stage.pods()) == before, "what runs was not touched"


def test_what_others_write_beside_ours_stays() -> None:
    stage = Stage().is_running()
    stage.cluster.merge("ConfigMap", "default", f"{stage.id}-routing", {"data": {"attempt.shuffler": "3"}})
    stage.cluster.merge("ConfigMap", "default", f"{stage.id}-routing", {"metadata": {"labels": {"team": "blue"}}})
    before = stage.everything()
    stage.settle()
    assert stage.everything() == before


def test_what_somebody_makes_with_the_labels_of_ours_is_not_removed() -> None:
    """As `kubectl expose pod` does. What has the query for its owner, and is wanted no more, goes."""
    stage = Stage().is_running()
    labels = stage.pods()["shuffler-1"]["metadata"]["labels"]
    for kind in KINDS:
        about = {"namespace": "default", "labels": labels}
        stage.cluster.create({"kind": kind, "metadata": {**about, "name": "exposed"}})
        stage.cluster.create(
            {"kind": kind, "metadata": {**about, "name": "of-old", "ownerReferences": [stage.named.owner()]}}
        )
    stage.settle()
    for kind in KINDS:
        assert stage.cluster.get(kind, "default", "exposed") is not None, kind
        assert stage.cluster.get(kind, "default", "of-old") is None, kind
