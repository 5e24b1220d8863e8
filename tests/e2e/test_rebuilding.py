"""An edit of our code makes the last layers of an image anew and no other, in seconds."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from images import base
from images.__main__ import JARS
from images.engine import Engine, NotBuilt
from images.names import built_as
from infra.jars import jars_of
from tests.e2e.infrastructure import ROOT

REBUILT_S = 60.0
# Layers that hold our code: the packages as they come, and what is installed of them.
OURS = {"spark": ("jobs/src/biclique/cli/tier.py", 2), "operator": ("operator/src/biclique_operator/queue.py", 3)}


@pytest.fixture
def engine() -> Engine:
    found = Engine("buildah")
    try:
        missing = [image for image in OURS if not found.has(built_as(image, "dev"))]
    except NotBuilt as reason:
        pytest.skip(f"builds images: {reason}")
    if missing:
        pytest.skip(f"builds images upon what `make images` has built; not built: {' '.join(missing)}")
    return found


def layers(engine: Engine, name: str) -> list[str]:
    told = engine.said("inspect", "--type=image", name, otherwise=f"{name} is not there")
    return [str(layer) for layer in json.loads(told)["OCIv1"]["rootfs"]["diff_ids"]]


@pytest.mark.parametrize("image", OURS)
def test_an_edit_makes_the_last_layers_anew_in_seconds(image: str, engine: Engine, tmp_path: Path) -> None:
    for folder in ("jobs", "operator", "images"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    for file in (".dockerignore", "infra/jars.lock"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    edited, ours = OURS[image]
    with (tmp_path / edited).open("a") as text:
        text.write("# edited\n")
    name, contexts = built_as(image, "edited"), {"jars": jars_of(JARS[image])} if image in JARS else {}
    began = time.monotonic()
    engine.build(
        tmp_path / "images" / image / "Dockerfile", tmp_path, name, {"BASE": base.found_or_made(engine)}, contexts
    )
    took_s = time.monotonic() - began
    before, after = layers(engine, built_as(image, "dev")), layers(engine, name)
    engine.run("rmi", name, otherwise=f"{name} stays")
    print(f"{image}: rebuilt in {took_s:.0f} s")
    assert after[:-ours] == before[:-ours]
    assert after[-1] != before[-1], "the edit is in it"
    assert took_s < REBUILT_S
