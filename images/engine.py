"""Whoever makes images of Dockerfiles: buildah, which needs no daemon and runs where containers cannot nest, or
another that takes the same words."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ENGINES = ("buildah", "docker", "podman")
# Where this machine keeps how it reaches package registries, and whom it trusts: a build fetches as we do.
OURS = (Path("/etc/pip.conf"), Path("/etc/ssl/certs/ca-certificates.crt"))


class NotBuilt(Exception):
    """One sentence; what the engine says of it stands above."""


@dataclass(frozen=True)
class Engine:
    program: str

    def build(
        self, file: Path, folder: Path, name: str, arguments: Mapping[str, str], contexts: Mapping[str, Path]
    ) -> None:
        command = ["build", "--file", str(file), "--tag", name]
        for key, value in arguments.items():
            command += ["--build-arg", f"{key}={value}"]
        for key, path in contexts.items():
            command += ["--build-context", f"{key}={path}"]
        if self.program != "docker":
            command += ["--layers", *(f"--volume={path}:{path}:ro" for path in OURS if path.exists())]
        self.run(*command, str(folder), otherwise=f"{name} was not built")

    def archive(self, name: str, file: Path, known_as: str) -> None:
        """`known_as`: its name in the file."""
        file.unlink(missing_ok=True)
        if self.program == "docker":
            if known_as != name:
                raise NotBuilt(f"docker saves {name} under its own name only, and not as {known_as}")
            self.run("save", "--output", str(file), name, otherwise=f"{name} was not saved")
        else:  # not as OCI, whose layers would be compressed: whoever loads them is on this machine
            words = ["push", "--quiet", name, f"docker-archive:{file}:{known_as}"]
            self.run(*words, otherwise=f"{name} was not saved")

    def has(self, name: str) -> bool:
        return self._call("inspect", "--type=image", name, capture_output=True).returncode == 0

    def pulls(self, name: str, limit_s: float) -> bool:
        try:
            return self._call("pull", "--quiet", name, capture_output=True, timeout=limit_s).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def run(self, *words: str, otherwise: str) -> None:
        if self._call(*words).returncode:
            raise NotBuilt(otherwise)

    def said(self, *words: str, otherwise: str) -> str:
        done = self._call(*words, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise NotBuilt(otherwise)
        return str(done.stdout).strip()

    def _call(self, *words: str, **how: object) -> subprocess.CompletedProcess[str]:
        if shutil.which(self.program) is None:
            raise NotBuilt(f"{self.program} is not on the path; `make images` installs buildah where it may")
        # Layers without a copy of each, and steps without namespaces, which a machine within a machine may not have.
        here = {"STORAGE_DRIVER": "overlay", "BUILDAH_ISOLATION": "chroot", **os.environ}
        return subprocess.run([self.program, *words], env=here, **how)  # type: ignore[call-overload, no-any-return]
