"""`make undeploy` takes the operator away from no query, and where it cannot ask, from nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("kubectl", "code", "said"),
    [
        ("echo joinquery.biclique.dev/orders", 2, "There are queries that nobody would look after"),
        ("echo 'you may not' >&2; exit 1", 2, "Whether there are queries could not be asked"),
        ("true", 0, "helm uninstall biclique --namespace biclique"),
    ],
    ids=["with queries", "who may not look", "without any"],
)
def test_the_operator_goes_where_nothing_needs_it(kubectl: str, code: int, said: str, tmp_path: Path) -> None:
    for name, script in {"kubectl": kubectl, "helm": "echo helm ran"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    settings = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    settings = {name: value for name, value in settings.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}
    done = subprocess.run(["make", "undeploy"], cwd=ROOT, env=settings, capture_output=True, text=True, check=False)
    assert done.returncode == code, done
    assert said in done.stdout + done.stderr
    assert ("helm ran" in done.stdout) == (code == 0)
