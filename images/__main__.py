"""The images, for a person at a terminal:

    python -m images build                      both, as localhost/biclique-spark:dev and -operator:dev
    python -m images build spark --base IMAGE   one of them, upon a base of yours
    python -m images build kafka redis          what a first look needs where nothing can be pulled
    python -m images archive spark FILE         as a file, for a cluster without a registry; says what pods call it

`build` takes buildah, or --engine docker or podman. The base is Python's public image; where no registry can be
reached, one is made of Debian's packages (images/base.py).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from images import base
from images.engine import ENGINES, Engine, NotBuilt
from images.locks import ROOT
from images.names import OURS, TRYOUT, asked_for_as, built_as
from infra.jars import BROKER, CONNECTOR, NoJars, jars_of

IMAGES = (*OURS, *TRYOUT)
JARS = {"spark": CONNECTOR, "kafka": BROKER}


def build(engine: Engine, images: list[str], wanted_base: str | None, tag: str) -> None:
    chosen = wanted_base or base.found_or_made(engine)
    for image in images:
        file = ROOT / "images" / image / "Dockerfile"
        contexts = {"jars": jars_of(JARS[image])} if image in JARS else {}
        engine.build(file, ROOT, built_as(image, tag), {"BASE": chosen}, contexts)
        print(built_as(image, tag))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m images", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    building, archiving = verbs.add_parser("build"), verbs.add_parser("archive")
    building.add_argument("images", nargs="*", metavar="|".join(IMAGES), help="by default ours, the first two")
    building.add_argument("--base", help="any image with Python 3.11 and apt")
    archiving.add_argument("image", choices=IMAGES)
    archiving.add_argument("file", type=Path)
    for verb in (building, archiving):
        verb.add_argument("--tag", default="dev")
        verb.add_argument("--engine", choices=ENGINES, default=ENGINES[0])
    wanted = parser.parse_args()
    try:
        if wanted.verb == "build":
            unknown = set(wanted.images) - set(IMAGES)
            if unknown:
                sys.exit(f"{' '.join(sorted(unknown))}: the images are {', '.join(IMAGES)}")
            build(Engine(wanted.engine), wanted.images or list(OURS), wanted.base, wanted.tag)
        else:
            name = asked_for_as(wanted.image, wanted.tag)
            Engine(wanted.engine).archive(built_as(wanted.image, wanted.tag), wanted.file, name)
            print(name)
    except (NotBuilt, NoJars) as failure:
        sys.exit(str(failure))


if __name__ == "__main__":
    main()
