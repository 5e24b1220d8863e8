"""What an installation is, read once from the environment of the operator's pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

# Of the operator alone, or made anew for each pod.
NOT_PASSED_ON = ("OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME", "OTEL_EXPORTER_PROMETHEUS_PORT")
SECRET = "_HEADERS"  # what ends so may hold a password, and a pod's specification is for many to read


@dataclass(frozen=True)
class Images:
    """Of Spark's pods: the one that a manifest does not name. `pull_secrets`: with which nodes fetch it, as they are
    called in a query's namespace."""

    spark: str
    pull_policy: str
    pull_secrets: tuple[str, ...] = ()


@dataclass(frozen=True)
class Installation:
    """What is the same for all queries. `telemetry`: OTEL_* as the tiers get it."""

    images: Images
    telemetry: tuple[tuple[str, str], ...] = ()

    def of_image(self, spark: str) -> Installation:
        """As if the image of Spark's pods were this one."""
        return replace(self, images=replace(self.images, spark=spark))


@dataclass(frozen=True)
class Settings:
    """`namespace`: the operator's own, of its Lease and its leftovers. `name`: of this installation, what both are
    called after. `watched`: the only namespace whose queries it looks after; None: all. `identity`: of this process
    among others."""

    namespace: str
    watched: str | None
    identity: str
    installation: Installation
    health_port: int = 8080
    name: str = "biclique"

    @property
    def lease(self) -> str:
        return f"{self.name}-operator"

    @property
    def leftovers(self) -> str:
        return f"{self.name}-leftovers"


def _is_passed_on(name: str) -> bool:
    return name.startswith("OTEL_") and name not in NOT_PASSED_ON and not name.endswith(SECRET)


def settings_of(environment: Mapping[str, str], watched: str | None, unique: str) -> Settings:
    """`unique`: tells this process from one that had the same pod name before it."""
    passed = {k: v for k, v in environment.items() if _is_passed_on(k)}
    images = Images(
        environment.get("BICLIQUE_IMAGE") or "localhost/biclique-spark:dev",
        environment.get("BICLIQUE_IMAGE_PULL_POLICY") or "IfNotPresent",
        tuple(name for name in (environment.get("BICLIQUE_IMAGE_PULL_SECRETS") or "").split(",") if name),
    )
    own = environment.get("BICLIQUE_OPERATOR_NAMESPACE") or environment.get("POD_NAMESPACE") or "default"
    return Settings(
        namespace=own,
        name=environment.get("BICLIQUE_INSTALLATION") or "biclique",
        watched=watched or environment.get("BICLIQUE_WATCH_NAMESPACE") or None,
        identity=f"{environment.get('POD_NAME') or 'operator'}-{unique}",
        installation=Installation(images, tuple(sorted(passed.items()))),
        health_port=int(environment.get("BICLIQUE_HEALTH_PORT") or 8080),
    )
