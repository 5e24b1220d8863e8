"""The operator is killed between any two of its writes, runs twice, sees yesterday's caches, is edited and deleted in
the middle of a roll: what there is in the end is the same."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from biclique_operator.cluster import Conflict, Unreachable
from tests.operator.scenes import (
    SCENES,
    WRITES_MAX,
    a_deletion_in_the_middle_of_a_roll_ends,
    a_stale_cache_decides_nothing,
    an_edit_in_the_middle_of_a_roll_is_followed,
    ends_alike_wherever_it_is_killed,
    failure_where_the_secret_was_lost,
    played_to_its_end,
    roll_of_all_kinds,
    staged,
    two_at_once_end_alike,
    undisturbed_end,
    what_there_is,
)
from tests.operator.stage import Operator, Stage

Raw = dict[str, Any]
OF_SECONDS = {roll_of_all_kinds, failure_where_the_secret_was_lost}


@pytest.mark.parametrize(
    "scene",
    [pytest.param(scene, marks=[pytest.mark.slow] if scene in OF_SECONDS else []) for scene in SCENES],
    ids=lambda scene: scene.__name__,
)
def test_killed_before_any_write_it_comes_to_the_same_end(scene: Callable[[Stage], None]) -> None:
    ends_alike_wherever_it_is_killed(scene, Stage)


class AnswersLost:
    """The write of a number, from 0, is done, and its answer does not come: nobody knows that it was."""

    def __init__(self, cluster: Any, number: int) -> None:
        self._cluster, self._left, self.lost = cluster, number, False
        self._real = {verb: getattr(cluster, verb) for verb in WRITING}

    @contextmanager
    def during(self) -> Iterator[None]:
        """Of the operator's calls alone."""
        for verb, real in self._real.items():
            setattr(self._cluster, verb, self._over(real))
        try:
            yield
        except Unreachable:
            pass
        finally:
            for verb, real in self._real.items():
                setattr(self._cluster, verb, real)

    def _over(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            answer = real(*args)
            self._left -= 1
            if self._left == -1:
                self.lost = True
                raise Unreachable("the connection was cut")
            return answer

        return call


WRITING = ("apply", "create", "merge", "write_status", "write_finalizers", "remove")


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_an_answer_that_was_lost_changes_nothing(scene: Callable[[Stage], None]) -> None:
    expected = undisturbed_end(scene, Stage)
    for number in range(WRITES_MAX):
        stage = staged(scene, Stage)
        answers = AnswersLost(stage.cluster, number)
        played_to_its_end(stage, while_it_looks=answers.during)
        if not answers.lost:
            break
        assert what_there_is(stage) == expected
    assert 0 < number < WRITES_MAX - 1


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_two_operators_at_once_come_to_the_same_end(scene: Callable[[Stage], None]) -> None:
    assert two_at_once_end_alike(scene, Stage, range(WRITES_MAX)) > 0


def test_a_cache_of_yesterday_decides_nothing() -> None:
    a_stale_cache_decides_nothing(Stage())


def test_a_cache_from_before_a_failure_reuses_no_attempt() -> None:
    stage = Stage().is_running()
    stale = Operator(stage.cluster, stage.clock)
    stale.list_everything()
    for attempt in (1, 2):
        stage.kubelet.ends(stage.pods()[f"shuffler-{attempt}"], 4, "no")
        stage.settle()
        stage.passes(10)
    pod = stage.pods()["shuffler-3"]
    stage.cluster.remove("Pod", "default", pod["metadata"]["name"], pod["metadata"]["uid"])
    dropped = stale.cluster.get("Pod", "default", f"{stage.id}-shuffler-2")
    assert dropped is not None
    for pod_name in ("shuffler-1", "shuffler-2"):
        gone = copy.deepcopy(dropped)
        gone["metadata"]["name"] = f"{stage.id}-{pod_name}"
        stale.caches.drop(gone)
    with suppress(Conflict):
        stale.controller.look(stage.key)
    stage.settle()
    assert "shuffler-4" in stage.pods()


def test_a_query_edited_in_the_middle_of_a_roll_comes_to_what_it_says_last() -> None:
    an_edit_in_the_middle_of_a_roll_is_followed(Stage())


def test_a_query_deleted_in_the_middle_of_a_roll_goes() -> None:
    a_deletion_in_the_middle_of_a_roll_ends(Stage())
