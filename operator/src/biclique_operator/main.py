"""`biclique-operator`: the commands."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import click

from biclique_operator.logs import begin_logging


@click.group()
def main() -> None:
    """Biclique on Kubernetes."""


@main.command()
@click.option("--namespace", default=None, help="The only namespace whose queries are looked after; without it, all.")
@click.option("--kubeconfig", default=None, help="Instead of the pod's own account, or of $KUBECONFIG.")
def run(namespace: str | None, kubeconfig: str | None) -> None:
    """The operator, in the foreground."""
    from biclique_operator.cluster import connect
    from biclique_operator.handlers import quieten_kopf
    from biclique_operator.service import Service
    from biclique_operator.settings import settings_of
    from biclique_operator.telemetry import open_telemetry

    begin_logging()
    quieten_kopf()
    settings = settings_of(os.environ, namespace, secrets.token_hex(4))
    Service(settings, connect(kubeconfig), open_telemetry(settings.identity)).run()


@main.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def crds(folder: Path) -> None:
    """Write the definitions of JoinQuery and JoinSubgroup into FOLDER, for `kubectl apply -f`."""
    from biclique_operator.crd.__main__ import write

    write(folder)
