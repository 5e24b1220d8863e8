"""Draws docs/quick-start/quick-start.svg: `python -m tests.e2e.recording` runs README's Kubernetes quick start on the
test cluster, or on that of KUBECONFIG, from `helm install` on, keeps what was typed and what came as a recording for
asciinema beside the picture, and draws it. `--redraw` draws what was kept."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence

from infra.cluster import binaries
from infra.cluster.__main__ import FOLDER as CLUSTER
from infra.cluster.node import Node
from tests.e2e.quick_start import ROOT, Failed, Shell, quick_start
from tests.e2e.recording_svg import COLUMNS, ROWS, picture

FOLDER = ROOT / "docs" / "quick-start"
CAST, PICTURE = FOLDER / "quick-start.cast", FOLDER / "quick-start.svg"
PAUSE_S = 1.5  # of a person who reads before he types on
LIMIT_S = 300
IDLE_S = 2.0


def run() -> Shell:
    kubeconfig = os.environ.get("KUBECONFIG") or str(Node(CLUSTER).plane.kubeconfig)
    path = f"{binaries.program('kubectl').parent}:{os.environ['PATH']}"
    shell = Shell({**os.environ, "KUBECONFIG": kubeconfig, "PATH": path})
    try:
        for command in quick_start().on_any_cluster:
            shell.run(command, LIMIT_S)
            time.sleep(PAUSE_S)
    except Failed as failure:
        sys.exit(str(failure))
    finally:
        shell.end()
    return shell


def cast(said: Sequence[tuple[float, str]], began_s: float) -> Iterator[str]:
    """As asciinema keeps it, version 2: what it is, then a line for each piece of output."""
    told = {"version": 2, "width": COLUMNS, "height": ROWS, "timestamp": int(began_s), "idle_time_limit": IDLE_S}
    yield json.dumps({**told, "title": "Biclique on Kubernetes: a first look"})
    for second, text in said:
        yield json.dumps([round(second, 2), "o", text.replace("\n", "\r\n")], ensure_ascii=False)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.recording", description=__doc__)
    parser.add_argument("--redraw", action="store_true", help="from the recording that was kept")
    if not parser.parse_args().redraw:
        FOLDER.mkdir(exist_ok=True)
        began_s = time.time()
        CAST.write_text("\n".join([*cast(run().said, began_s), ""]), encoding="utf-8")
    PICTURE.write_text(picture(CAST.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
