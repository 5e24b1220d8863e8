"""`python -m biclique_operator.crd [FOLDER]`: writes the definitions, by default into the chart of this checkout."""

from __future__ import annotations

import sys
from pathlib import Path

from biclique_operator.crd.definitions import written

CHART = Path(__file__).parents[4] / "charts/biclique/files/crds"


def write(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else CHART)
