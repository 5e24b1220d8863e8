"""Scenes in which an operator is disturbed, and what there is at their end: for tests in memory and on the real API."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from biclique_operator.desired.all import KINDS
from biclique_operator.desired.names import APPLIED, QUERY, SPEC_HASH
from tests.operator.manifests import WITH_MERGER_AND_EXECUTORS, joinquery
from tests.operator.stage import LEFTOVERS, Operator, Stage
from tests.operator.surroundings import go_on

Raw = dict[str, Any]
BeforeWrite = Callable[[str, str, str], None]  # of a verb, a kind and a name
WRITES_MAX = 150  # of a scene; each test holds that there are fewer
ROUNDS_MAX = 60
QUIET_ROUNDS = 2  # after so many that changed nothing it has come to its end
ROUND_S = 6.0


class Killed(BaseException):
    """Nothing of the operator runs on."""


def what_there_is(stage: Stage) -> dict[tuple[str, str], Raw]:
    """Objects as they were asked for, and what was noted of leftovers; without versions, times and ids, which tell of
    the way and not of the end."""
    found: dict[tuple[str, str], Raw] = {}
    query = stage.cluster.get("JoinQuery", *stage.key)
    if query is not None:
        found["JoinQuery", stage.key.name] = {"finalizers": query["metadata"].get("finalizers"), **_judged(query)}
    for kind in (*KINDS, "Secret", "Pod"):
        for obj in stage.cluster.list(kind, stage.key.namespace):
            about = obj["metadata"]
            kept: Raw = {key: obj.get(key) for key in ("rules", "roleRef")}
            kept["data"] = obj.get("data") if kind != "Secret" else [*obj["data"]]  # which is another one each time
            kept["labels"] = about.get("labels")
            kept["annotations"] = {k: v for k, v in (about.get("annotations") or {}).items() if k != APPLIED}
            found[kind, about["name"]] = kept
    noted = stage.cluster.get("ConfigMap", *LEFTOVERS)
    for prefix, text in ((noted or {}).get("data") or {}).items():
        found["Leftover", prefix] = {**json.loads(text), "noted_at": None}
    text = json.dumps([[*key, value] for key, value in found.items()], sort_keys=True)
    named = text.replace(stage.named.id, "ID").replace(stage.named.uid, "UID").replace(stage.key.namespace, "SPACE")
    return {(kind, name): value for kind, name, value in json.loads(named) if kind != "Leftover" or name == "ID"}


def _judged(query: Raw) -> Raw:
    status = query.get("status") or {}
    said = [(one["type"], one["status"], one["reason"]) for one in status.get("conditions") or ()]
    return {"conditions": sorted(said)}


# A scene: what is done before the operator is disturbed. `all_kinds`: of a query with executors and a merger.
def creation(stage: Stage) -> None:
    stage.cluster.create(joinquery(namespace=stage.key.namespace))


def creation_of_all_kinds(stage: Stage) -> None:
    stage.cluster.create(joinquery(namespace=stage.key.namespace, **WITH_MERGER_AND_EXECUTORS))


def roll(stage: Stage) -> None:
    stage.is_running()
    stage.change(joiners={"memory": "3Gi"})


def roll_of_all_kinds(stage: Stage) -> None:
    all_kinds_run(stage)
    stage.change(delivery="atLeastOnce")


def suspension(stage: Stage) -> None:
    stage.is_running()
    stage.change(suspend=True)


def suspension_of_all_kinds(stage: Stage) -> None:
    all_kinds_run(stage)
    stage.change(suspend=True)


def failure(stage: Stage) -> None:
    stage.is_running()
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 4, "no")


def failure_of_a_merger_with_executors(stage: Stage) -> None:
    all_kinds_run(stage)
    stage.kubelet.ends(stage.pods()["merger-1"], 4, "no")


def failure_where_the_secret_was_lost(stage: Stage) -> None:
    all_kinds_run(stage)
    (secret,) = stage.cluster.list("Secret", stage.key.namespace, {QUERY: stage.key.name})
    stage.cluster.remove("Secret", stage.key.namespace, secret["metadata"]["name"], secret["metadata"]["uid"])
    stage.kubelet.ends(stage.pods()["merger-1"], 4, "no")


def deletion(stage: Stage) -> None:
    """Nothing runs, so all of it is one look's; and nobody has left anything before."""
    stage.is_running()
    stage.rests()
    stage.delete()


def deletion_of_all_kinds(stage: Stage) -> None:
    """Another query has left something before it."""
    if stage.cluster.get("ConfigMap", *LEFTOVERS) is None:
        about = {"namespace": LEFTOVERS[0], "name": LEFTOVERS[1]}
        stage.cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"other-1": "{}"}})
    all_kinds_run(stage)
    stage.delete()


def all_kinds_run(stage: Stage) -> None:
    stage.is_running(**WITH_MERGER_AND_EXECUTORS)
    go_on(stage)
    stage.settle()


# Each with a write that it would not be itself without.
SCENES = {
    creation: "create Pod",
    creation_of_all_kinds: "create Secret",
    roll: "remove Pod",
    roll_of_all_kinds: "remove Pod",
    suspension: "apply ConfigMap",
    suspension_of_all_kinds: "apply ConfigMap",
    failure: "create Pod",
    failure_of_a_merger_with_executors: "create Pod",
    failure_where_the_secret_was_lost: "create Secret",
    deletion: "finalizers JoinQuery",
    deletion_of_all_kinds: "merge ConfigMap",
}


def nobody_minds(verb: str, kind: str, name: str) -> None:
    """Before a write."""


def played_to_its_end(
    stage: Stage,
    before: BeforeWrite = nobody_minds,
    while_it_looks: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> None:
    """The operator looks, its surroundings and the clock go on, until nobody writes any more. `before`: called before
    each write of the operator's; its surroundings are not disturbed."""
    written = looks = 0

    def noticed(verb: str, kind: str, name: str) -> None:
        nonlocal written
        written += 1
        if looks:
            before(verb, kind, name)

    stage.cluster.before_write = noticed
    quiet = 0
    try:
        for _ in range(ROUNDS_MAX):
            written, looks, again_s = 0, 1, 0.0
            with while_it_looks():
                again_s = stage.operator.look(stage.key) or ROUND_S
            looks = 0
            go_on(stage)
            stage.clock.passes(ROUND_S)
            quiet = quiet + 1 if again_s and not written else 0
            if quiet == QUIET_ROUNDS:
                return
    finally:
        stage.cluster.before_write = nobody_minds
    raise AssertionError("it does not come to an end")


def killed_at(number: int, dies: type[BaseException]) -> tuple[BeforeWrite, list[str]]:
    """Before the write of that number, from 0."""
    writes: list[str] = []

    def before(verb: str, kind: str, name: str) -> None:
        writes.append(f"{verb} {kind} {name}")
        if len(writes) == number + 1:
            raise dies

    return before, writes


def staged(scene: Callable[[Stage], None], new_stage: Callable[[], Stage]) -> Stage:
    stage = new_stage()
    scene(stage)
    assert stage.named.id, "it is known before it is gone"
    return stage


def undisturbed_end(scene: Callable[[Stage], None], new_stage: Callable[[], Stage]) -> dict[tuple[str, str], Raw]:
    stage = staged(scene, new_stage)
    played_to_its_end(stage)
    return what_there_is(stage)


def ends_alike_wherever_it_is_killed(scene: Callable[[Stage], None], new_stage: Callable[[], Stage]) -> None:
    expected = undisturbed_end(scene, new_stage)
    for number in range(WRITES_MAX):
        stage = staged(scene, new_stage)
        before, writes = killed_at(number, Killed)
        try:
            played_to_its_end(stage, before)
        except Killed:
            pass
        else:
            assert any(write.startswith(SCENES[scene]) for write in writes), writes
            return
        # The next one knows nothing but what there is.
        stage.operator = Operator(stage.cluster, stage.clock)
        played_to_its_end(stage)
        assert what_there_is(stage) == expected, f"killed before {writes[-1]}"
    raise AssertionError("the scene has more writes than it may")


# --- two at once ------------------------------------------------------------------------------------------------------


class SecondOperator:
    """Looks, whole, before the write of a number, from 0."""

    def __init__(self, stage: Stage, number: int) -> None:
        self._stage, self._left = stage, number
        self.operator = Operator(stage.cluster, stage.clock)
        self.looked = False

    def __call__(self, verb: str, kind: str, name: str) -> None:
        self._left -= 1
        if self._left == -1:
            self.looked = True
            for _ in range(3):
                self.operator.look(self._stage.key)


def two_at_once_end_alike(
    scene: Callable[[Stage], None], new_stage: Callable[[], Stage], numbers: Iterable[int]
) -> int:
    """A second operator looks before the write of each of these numbers. Returns the first that there was not."""
    expected = undisturbed_end(scene, new_stage)
    for number in numbers:
        stage = staged(scene, new_stage)
        second = SecondOperator(stage, number)
        played_to_its_end(stage, second)
        if not second.looked:
            return number
        assert what_there_is(stage) == expected, f"the second one looked before write {number}"
    return max(numbers) + 1


# --- in the middle of a roll ------------------------------------------------------------------------------------------


def an_edit_in_the_middle_of_a_roll_is_followed(stage: Stage) -> None:
    stage.is_running()
    stage.change(delivery="atLeastOnce")
    stage.operator.look(stage.key)
    stage.change(delivery="exactlyOnce", joiners={"memory": "3Gi"})
    played_to_its_end(stage)
    assert stage.condition("Ready")[0] == "True"
    assert stage.condition("Progressing")[1] == "Stable"
    text = stage.cluster.get("ConfigMap", stage.key.namespace, f"{stage.id}-manifest")
    assert text is not None and '"delivery": "exactlyOnce"' in text["data"]["join.yaml"]
    made_of = {n.rpartition("-")[0]: p["metadata"]["annotations"][SPEC_HASH] for n, p in stage.pods().items()}
    assert made_of["joiner-0l0"] == made_of["joiner-0r0"]
    assert "shuffler-1" in stage.pods()


def a_deletion_in_the_middle_of_a_roll_ends(stage: Stage) -> None:
    stage.is_running()
    stage.change(joiners={"memory": "3Gi"})
    stage.operator.look(stage.key)
    stage.delete()
    for _ in range(12):
        stage.operator.look(stage.key)
        stage.clock.passes(5)
    assert stage.cluster.get("JoinQuery", *stage.key) is None


# --- a stale cache ----------------------------------------------------------------------------------------------------


def a_stale_cache_decides_nothing(stage: Stage) -> None:
    """It says that nothing is there; what is there is seen before anything is made."""
    stage.is_running()
    stale = Operator(stage.cluster, stage.clock)
    stale.caches.put(stage.operator.query(stage.key))
    before = stage.everything()
    pods = {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()}
    for _ in range(3):
        stale.controller.look(stage.key)
    assert {name: pod["metadata"]["uid"] for name, pod in stage.pods().items()} == pods
    assert stage.everything() == before
