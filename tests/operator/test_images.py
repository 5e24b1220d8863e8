"""After an upgrade of the installation a query goes on with the image that it runs with, until its user asks for the
new one."""

from __future__ import annotations

from tests.operator.stage import INSTALLATION, Operator, Stage, created

OLD, NEW = "biclique-spark:test", "biclique-spark:new"


def upgraded(stage: Stage, image: str = NEW) -> None:
    stage.operator = Operator(stage.cluster, stage.clock, installation=INSTALLATION.of_image(image))
    stage.settle()


def images(stage: Stage) -> dict[str, str]:
    return {name: stage.pods()[name]["spec"]["containers"][0]["image"] for name in stage.alive()}


def rolled(stage: Stage) -> None:
    for _ in range(6):
        stage.run_pods()
        stage.settle()


def test_a_driver_that_ends_after_an_upgrade_comes_back_with_the_image_of_the_others() -> None:
    stage = Stage().is_running()
    assert stage.status["image"] == OLD
    before = stage.everything()
    upgraded(stage)
    assert stage.everything() == before, "an upgrade touches nothing that runs"
    stage.kubelet.ends(stage.pods()["joiner-0l0-1"], 4, "no")
    stage.settle()
    stage.passes(5)
    assert images(stage)["joiner-0l0-2"] == OLD
    stage.run_pods()
    stage.settle()
    assert stage.status["image"] == OLD


def test_a_suspended_query_resumes_with_the_image_that_it_had() -> None:
    stage = Stage().is_running()
    stage.rests()
    upgraded(stage)
    stage.change(suspend=False)
    stage.settle()
    assert set(images(stage).values()) == {OLD}


def test_another_word_in_the_annotation_brings_the_new_image_to_every_tier() -> None:
    stage = Stage().is_running()
    upgraded(stage)
    stage.annotate(restart="x" * 1000)
    stage.settle()
    stage.kubelet.ends(stage.pods()["dispatcher-1"], 4, "no")
    rolled(stage)
    stage.passes(5)
    rolled(stage)
    assert set(images(stage).values()) == {NEW}
    assert stage.status["image"] == NEW
    upgraded(stage, "biclique-spark:newer")
    stage.kubelet.ends(stage.pods()["shuffler-2"], 4, "no")
    stage.settle()
    stage.passes(5)
    assert images(stage)["shuffler-3"] == NEW


def test_the_manifests_own_image_goes_first() -> None:
    stage = Stage().is_running(joiners={"image": "mine:1"})
    assert stage.status["image"] == OLD
    stage.change(joiners={"image": "mine:2"})
    rolled(stage)
    found = images(stage)
    assert (found["joiner-0l0-2"], found["joiner-0r0-2"], found["shuffler-1"]) == ("mine:2", "mine:2", OLD)
    stage.change(tiers={"image": "mine:3"}, joiners=None)
    rolled(stage)
    assert set(images(stage).values()) == {"mine:3"}
    assert "image" not in stage.status


def test_of_a_query_that_has_never_run_the_image_is_that_of_the_day() -> None:
    """It may be what keeps it from running."""
    stage = created()
    for pod in stage.pods().values():
        stage.kubelet.ends(pod, 4, "wrong image")
    upgraded(stage)
    stage.passes(5)
    assert set(images(stage).values()) == {NEW}


def test_pods_that_wait_for_an_image_that_was_corrected_are_made_with_the_new_one() -> None:
    stage = created()
    for pod in stage.pods().values():
        stage.kubelet.waits(pod, "ImagePullBackOff", 'Back-off pulling image "biclique-spark:test"')
    stage.settle()
    assert stage.condition("Degraded")[1] == "ImageNotFound"
    upgraded(stage)
    stage.passes(5)
    assert set(images(stage).values()) == {NEW}
    stage.run_pods()
    stage.settle()
    assert stage.status["image"] == NEW


def test_what_a_webhook_makes_of_an_image_is_not_taken_for_another_one() -> None:
    stage = created()
    for pod in stage.pods().values():
        pod["spec"]["containers"][0]["image"] = f"mirror.example/{OLD}"
        pod["spec"]["containers"].insert(0, {"name": "injected", "image": "proxy:1"})
        stage.kubelet.waits(stage.cluster.apply(pod), "ContainerCreating")
    before = set(stage.alive())
    stage.passes(60)
    assert set(stage.alive()) == before
    stage.run_pods()
    stage.settle()
    assert stage.status["image"] == OLD
