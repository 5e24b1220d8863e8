"""The pods' network: a bridge of this machine, at whose address pods reach its processes, Kafka and Redis among them.

It enforces no NetworkPolicy; it carries packets, and that is all.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

BRIDGE = "biclique0"
ADDRESS = "10.88.0.1"
PODS = "10.88.0.0/16"
PREFIX_LENGTH = 16
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
# Where the library that containerd calls the plugins with keeps what they answered, whatever it is told.
RESULTS = Path("/var/lib/cni/results")
NETWORK = "biclique"


def write_settings(folder: Path) -> Path:
    addresses = {"type": "host-local", "dataDir": str(folder / "addresses"), "ranges": [[{"subnet": PODS}]]}
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "hairpinMode": True,  # a pod that calls the Service it stands behind is answered by itself
        "ipam": {**addresses, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    settings = folder / "settings"
    settings.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"cniVersion": "1.0.0", "name": NETWORK, "plugins": [bridge]}, indent=1)
    (settings / f"{NETWORK}.conflist").write_text(text)
    return settings


def up(folder: Path) -> None:
    """The bridge stands before the first pod, so that this machine's servers can listen there."""
    if not Path(f"/sys/class/net/{BRIDGE}").exists():
        _ip("link", "add", BRIDGE, "type", "bridge")
    _ip("address", "replace", f"{ADDRESS}/{PREFIX_LENGTH}", "dev", BRIDGE)
    _ip("link", "set", BRIDGE, "up")
    before = folder / "forwarding-before"
    if not before.exists():
        before.write_text(FORWARDING.read_text())
    FORWARDING.write_text("1\n")


def down(folder: Path) -> None:
    """Also the pods' own networks, which nobody takes down when the node goes away under them."""
    for answer in RESULTS.glob(f"{NETWORK}-*"):
        told = json.loads(answer.read_text())
        for namespace in {interface.get("sandbox") for interface in told["result"]["interfaces"]} - {None, ""}:
            subprocess.run(["umount", "--lazy", namespace], capture_output=True)
            Path(namespace).unlink(missing_ok=True)
        for each in RESULTS.glob(f"*-{told['containerId']}-*"):  # of the loopback too
            each.unlink()
    if Path(f"/sys/class/net/{BRIDGE}").exists():
        _ip("link", "delete", BRIDGE)
    before = folder / "forwarding-before"
    if before.exists():
        FORWARDING.write_text(before.read_text())


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
