"""Images into the node's containerd, without a registry: from a file, or the pause image from the program itself."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
import tempfile
from pathlib import Path

from infra.cluster.binaries import program

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


class NotLoaded(Exception):
    """One sentence, and what containerd said."""


def load(ctr: list[str], archive: Path, name: str) -> None:
    """`archive`: an image as OCI or as Docker writes it to a file. `name`: under which pods ask for it."""
    words = ["images", "import", "--base-name", name.rpartition(":")[0], str(archive)]
    done = subprocess.run([*ctr, *words], capture_output=True, text=True)
    if done.returncode:
        raise NotLoaded(f"{archive}: containerd did not take it:\n{done.stderr.strip()}")
    if name not in names(ctr):
        raise NotLoaded(f"{archive}: holds no image {name}; what it holds is loaded: {', '.join(names(ctr))}")


def names(ctr: list[str]) -> list[str]:
    done = subprocess.run([*ctr, "images", "list", "--quiet"], check=True, capture_output=True, text=True)
    return [name for name in done.stdout.split() if not name.startswith("sha256:")]


def load_pause(ctr: list[str], name: str) -> None:
    if name not in names(ctr):
        with tempfile.TemporaryDirectory() as temporary:
            archive = Path(temporary) / "pause.tar"
            write_image(archive, name, program("pause"))
            load(ctr, archive, name)


def write_image(archive: Path, name: str, only: Path) -> None:
    """An image of one static program, as OCI lays it out: blobs by their hashes, and an index that names the image."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        _add(tar, only.name, only.read_bytes(), mode=0o755)
    blobs: dict[str, bytes] = {}

    def blob(media_type: str, content: bytes) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def document(media_type: str, content: object) -> dict[str, object]:
        return blob(media_type, json.dumps(content).encode())

    described = blob(LAYER, layer.getvalue())
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": [f"/{only.name}"]},
        "rootfs": {"type": "layers", "diff_ids": [described["digest"]]},
    }
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": document(CONFIG, config), "layers": [described]}
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{**document(MANIFEST, manifest), "annotations": names}],
    }
    with tarfile.open(archive, mode="w") as tar:
        _add(tar, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(tar, "index.json", json.dumps(index).encode())
        for path, content in blobs.items():
            _add(tar, path, content)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))
