"""What driver and executor pods have in common: who they run as, and what is mounted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from biclique_operator.settings import Images

HOME = "/var/lib/biclique"
SECRETS_FOLDER = "/etc/biclique/secrets"
VOLUMES_FOLDER = "/etc/biclique/volumes"
AUTHENTICATION_FOLDER, AUTHENTICATION_KEY = "/etc/biclique/authentication", "secret"
USER = 185
# So long a pod stays on a node that does not answer. Kubernetes gives 300 s to whoever says nothing; a query stands for
# as long, and two drivers of a tier do no harm.
LOST_NODE_S = 30
LOST_NODE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class Mounts:
    """Beside what can be written to: `secrets` by name, and the claim that checkpoints are kept on. `authentication`:
    the Secret that a driver shares with its executors, where it has any."""

    secrets: tuple[str, ...]
    claim: str | None = None
    authentication: str | None = None


def pod_security() -> dict[str, object]:
    """`fsGroup`: Secrets are mounted for this group to read."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, object]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def pulling(images: Images) -> dict[str, object]:
    """Of a pod's spec: with which Secrets its node fetches the image."""
    return {"imagePullSecrets": [{"name": name} for name in images.pull_secrets]} if images.pull_secrets else {}


def mounts_of(mounts: Mounts) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "home", "mountPath": HOME},
        {"name": "memory", "mountPath": "/dev/shm"},
    ]
    for number, secret in enumerate(mounts.secrets):
        mounted = {"name": f"secret-{number}", "mountPath": f"{SECRETS_FOLDER}/{secret}", "readOnly": True}
        found.append(mounted)
    if mounts.claim is not None:
        found.append({"name": "checkpoints", "mountPath": f"{VOLUMES_FOLDER}/{mounts.claim}"})
    if mounts.authentication is not None:
        found.append({"name": "authentication", "mountPath": AUTHENTICATION_FOLDER, "readOnly": True})
    return found


def volumes_of(mounts: Mounts) -> list[dict[str, object]]:
    found: list[dict[str, object]] = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "home", "emptyDir": {}},
        {"name": "memory", "emptyDir": {"medium": "Memory"}},
    ]
    for number, secret in enumerate(mounts.secrets):
        found.append({"name": f"secret-{number}", "secret": {"secretName": secret, "defaultMode": 0o440}})
    if mounts.claim is not None:
        found.append({"name": "checkpoints", "persistentVolumeClaim": {"claimName": mounts.claim}})
    if mounts.authentication is not None:
        found.append({"name": "authentication", "secret": {"secretName": mounts.authentication, "defaultMode": 0o440}})
    return found


def tolerations_of(given: Iterable[dict[str, object]]) -> list[dict[str, object]]:
    """Those of the manifest, and of a lost node for a while, unless the manifest says how long."""
    own = list(given)
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_S}
        for taint in LOST_NODE
        if not any(_tolerates(one, taint) for one in own)
    ]
    return own + added


def _tolerates(toleration: dict[str, object], taint: str) -> bool:
    """As Kubernetes reads it: without a key every taint, without an effect all of them."""
    return toleration.get("key") in (None, "", taint) and toleration.get("effect") in (None, "", "NoExecute")
