"""Caches: the newest of what was told and listed, and of a query made anew nothing of the old one."""

from __future__ import annotations

from typing import Any

from biclique_operator.caches import Caches, QueryKey
from biclique_operator.deafness import Deafness
from biclique_operator.differences import differs, sealed

Raw = dict[str, Any]
KEY = QueryKey("default", "fits")


def obj(kind: str, name: str, uid: str, version: int, query_uid: str = "q1", **more: Any) -> Raw:
    labels = {
        "app.kubernetes.io/managed-by": "biclique-operator",
        "biclique.dev/query": "fits",
        "biclique.dev/query-uid": query_uid,
    }
    about = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(version), "labels": labels}
    return {"kind": kind, "metadata": {**about, "managedFields": [{}]}, **more}


def test_the_newer_one_stays_whichever_comes_last() -> None:
    caches = Caches()
    assert caches.put(obj("Pod", "a", "1", 5, status={"phase": "Running"})) == KEY
    assert caches.put(obj("Pod", "a", "1", 4, status={"phase": "Pending"})) is None
    assert caches.put(obj("Pod", "a", "1", 5)) is None, "nothing new"
    (pod,) = caches.owned(KEY, "q1")
    assert pod["status"]["phase"] == "Running"
    assert "managedFields" not in pod["metadata"]


def test_one_made_anew_replaces_the_old_one_and_the_end_of_the_old_one_does_not_remove_it() -> None:
    caches = Caches()
    caches.put(obj("Pod", "a", "1", 5))
    caches.put(obj("Pod", "a", "2", 9))
    assert caches.drop(obj("Pod", "a", "1", 8)) is None
    assert len(caches.owned(KEY, "q1")) == 1
    assert caches.drop(obj("Pod", "a", "2", 10)) == KEY
    assert caches.owned(KEY, "q1") == ()


def test_what_is_of_a_query_before_it_is_not_its_own() -> None:
    caches = Caches()
    caches.put(obj("ConfigMap", "old", "1", 5, "q0"))
    caches.put(obj("ConfigMap", "new", "2", 6, "q1"))
    assert [one["metadata"]["name"] for one in caches.owned(KEY, "q1")] == ["new"]


def test_a_list_finds_what_no_watch_told() -> None:
    caches = Caches()
    caches.put(obj("Pod", "gone", "1", 5))
    caches.put(obj("Pod", "stays", "2", 6))
    known = caches.known("Pod")
    caches.put(obj("Pod", "made-meanwhile", "4", 9))
    changed = caches.replace_all("Pod", [obj("Pod", "stays", "2", 6), obj("Pod", "missed", "3", 7)], known)
    assert changed == {KEY}
    names = sorted(one["metadata"]["name"] for one in caches.owned(KEY, "q1"))
    assert names == ["made-meanwhile", "missed", "stays"]


def test_what_is_nobodys_is_let_go() -> None:
    caches = Caches()
    stranger = obj("Pod", "a", "1", 5)
    stranger["metadata"]["labels"] = {}
    assert caches.put(stranger) is None


# --- watches that have gone deaf -------------------------------------------------------------------------------------


def test_a_watch_is_deaf_when_lists_find_what_it_did_not_tell() -> None:
    now = [0.0]
    deafness = Deafness(lambda: now[0])

    def listed(found_news: bool) -> str | None:
        now[0] += 120
        deafness.listed("Pod", found_news)
        return deafness.deaf()

    assert listed(True) is None, "the first one finds everything"
    assert listed(False) is None, "a quiet cluster"
    assert listed(True) is None, "the watch may have been about to tell it"
    assert listed(True) == "Pod"
    now[0] += 1
    deafness.heard("Pod")
    assert listed(True) is None


# --- differences -----------------------------------------------------------------------------------------------------

DESIRED = {"kind": "Role", "metadata": {"name": "a", "labels": {"x": "1"}}, "rules": [{"verbs": ["get"]}], "empty": []}


def test_what_the_api_and_others_add_is_no_difference() -> None:
    wanted = sealed(DESIRED)
    stands = {
        **wanted,
        "metadata": {**wanted["metadata"], "uid": "1", "labels": {"x": "1", "team": "blue"}},
        "rules": [{"verbs": ["get"], "resourceNames": None}],
        "added": 7,
    }
    stands.pop("empty")
    assert not differs(wanted, stands)


def test_what_is_missing_changed_or_said_no_more_is_one() -> None:
    wanted = sealed(DESIRED)
    assert differs(wanted, None)
    assert differs(wanted, {**wanted, "rules": []})
    assert differs(wanted, {**wanted, "rules": [{"verbs": ["get", "list"]}]})
    before = sealed({**DESIRED, "more": 1})
    assert differs(wanted, {**before, **{k: v for k, v in wanted.items() if k != "metadata"}})
