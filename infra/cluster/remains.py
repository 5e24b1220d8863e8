"""What a node leaves behind when its processes end, and no more than that: pods that run on, mounts, control groups,
rules of the packet filter."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import psutil

from infra.cluster.binaries import NotBuilt, program

SHIM = "containerd-shim-runc-v2"
SHIM_LIMIT_S = 10.0
CONTROL_GROUPS = Path("/sys/fs/cgroup")
LEFT_CHAIN = "KUBE-FIREWALL"
LOG_LINKS = Path("/var/log/containers")


def end_pods(containerd: Path) -> None:
    """Containers outlive the kubelet and containerd: each is the child of a shim, which names containerd's socket, and
    listens at one of its own, elsewhere."""
    shims = [process for process in psutil.process_iter() if _is_shim_of(process, containerd / "containerd.sock")]
    for shim in shims:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in (*shim.children(recursive=True), shim):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
    psutil.wait_procs(shims, SHIM_LIMIT_S)
    for address in containerd.glob("state/io.containerd.runtime.v2.task/*/*/address"):
        Path(address.read_text().removeprefix("unix://")).unlink(missing_ok=True)


def _is_shim_of(process: psutil.Process, socket: Path) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    return bool(command) and command[0].endswith(SHIM) and str(socket) in command


def unmount(folder: Path) -> None:
    """Deepest first: containers' file systems stand upon one another."""
    points = [line.split()[4].encode().decode("unicode_escape") for line in _mounts()]
    for point in sorted((point for point in points if Path(point).is_relative_to(folder)), reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True)


def _mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


def remove_control_groups() -> None:
    for top in (*CONTROL_GROUPS.glob("kubepods"), *CONTROL_GROUPS.glob("*/kubepods")):
        for group in sorted((path for path in (top, *top.rglob("*")) if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                group.rmdir()


def remove_log_links(folder: Path) -> None:
    """The kubelet makes them for whoever collects logs, wherever the logs are."""
    for link in LOG_LINKS.glob("*.log"):
        if link.is_symlink() and link.readlink().is_relative_to(folder):
            link.unlink()


def remove_packet_rules() -> None:
    """The proxy takes its own away; of a chain, what leads to it goes before the chain itself."""
    with contextlib.suppress(NotBuilt):
        subprocess.run([program("kube-proxy"), "--cleanup"], capture_output=True)
    for words in (["-D", "INPUT", "-j"], ["-D", "OUTPUT", "-j"], ["-F"], ["-X"]):
        subprocess.run(["iptables", "--wait", *words, LEFT_CHAIN], capture_output=True)
