"""The test cluster's programs, built once from a Go module into a cache outside the checkout.

No registry serves Kubernetes as programs, but the Go module proxy serves its source: three minutes on two cores, once.
All of them are one module, so that what they share, Kubernetes' client above all, has one version and is compiled once.
It is pinned by the checksums in go/go.sum. The folder's name says what it was built from: an edit of a version here or
of a file there builds anew, beside the old one.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from infra.jars import cache_folder

SOURCES = Path(__file__).with_name("go")
KUBERNETES = "1.34.4"
# One program, called by many names.
NAMES = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl")
GO_MIN = (1, 26)


def _kubernetes_stamp() -> str:
    """Without a version in it the API server calls itself v0.0.0-master, which Helm refuses to compare."""
    major, minor, _ = KUBERNETES.split(".")
    values = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


# Each becomes a program of its last part's name.
PACKAGES = ("./etcd", "./kubernetes", "./pause", "./coredns", "helm.sh/helm/v3/cmd/helm")
COMMAND = ("build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-gcflags=all=-dwarf=false")
LINKING = f"-s -w {_kubernetes_stamp()}"
# A compiler lives for one package: to collect its memory before costs time and saves little.
COMPILING = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOGC": "800"}


class NotBuilt(Exception):
    """One sentence: what is not there, and how it comes."""


def folder() -> Path:
    mark = hashlib.sha256(repr((PACKAGES, COMMAND, LINKING)).encode())
    for path in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        mark.update(path.relative_to(SOURCES).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return cache_folder() / f"kubernetes-{KUBERNETES}-{mark.hexdigest()[:12]}"


def program(name: str) -> Path:
    found = folder() / name
    if not found.exists():
        raise NotBuilt(f"{name} is not built: `python -m infra.cluster build` builds it, once, in about 3 minutes")
    return found


def build() -> Path:
    """What is there already is left alone; the folder stands there whole, or not at all."""
    target = folder()
    if target.exists():
        return target
    go = _go()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)  # of one that was killed, whose number this process has by now
    partial.mkdir(parents=True)
    print("Kubernetes, etcd, CoreDNS and Helm are compiled: some three minutes on two cores, once …", flush=True)
    try:
        command = [go, *COMMAND, "-ldflags", LINKING, "-o", f"{partial}/", *PACKAGES]
        if subprocess.run(command, cwd=SOURCES, env={**os.environ, **COMPILING}).returncode:
            raise NotBuilt("the test cluster's programs could not be built; what Go says of it stands above")
        for name in NAMES:
            (partial / name).symlink_to("kubernetes")
        try:
            partial.rename(target)
        except OSError:
            if not target.exists():  # nobody else has just built the same
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def _go() -> str:
    """A Go that is old, but fetches the version that a module asks for, says that it is the newer one."""
    go = shutil.which("go")
    minimum = ".".join(map(str, GO_MIN))
    if go is None:
        raise NotBuilt(f"Go is not on the path: the test cluster is built with Go {minimum} or later")
    said = subprocess.run([go, "version"], cwd=SOURCES, capture_output=True, text=True).stdout
    version = re.search(r"go(\d+)\.(\d+)", said)
    if version is None or tuple(map(int, version.groups())) < GO_MIN:
        raise NotBuilt(f"the test cluster is built with Go {minimum} or later; {go} is older, and fetches no newer one")
    return go
