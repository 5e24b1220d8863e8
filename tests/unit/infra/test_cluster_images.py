"""The image that we write ourselves is laid out as OCI says: every blob is there under the hash of what it holds."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

from infra.cluster.images import write_image

NAME = "localhost/pause:1"


def test_an_image_of_one_program(tmp_path: Path) -> None:
    program = tmp_path / "pause"
    program.write_bytes(b"\x7fELF and so on")
    archive = tmp_path / "pause.tar"
    write_image(archive, NAME, program)
    with tarfile.open(archive) as tar:
        files = {member.name: tar.extractfile(member).read() for member in tar}
    blobs = {path.rpartition("/")[2]: content for path, content in files.items() if path.startswith("blobs/")}
    assert all(hashlib.sha256(content).hexdigest() == name for name, content in blobs.items())

    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["annotations"]["io.containerd.image.name"] == NAME
    manifest = json.loads(blobs[described["digest"].removeprefix("sha256:")])
    config = json.loads(blobs[manifest["config"]["digest"].removeprefix("sha256:")])
    (layer,) = manifest["layers"]
    assert config["rootfs"]["diff_ids"] == [layer["digest"]]
    assert config["config"]["Entrypoint"] == ["/pause"]
    inside = tmp_path / "layer.tar"
    inside.write_bytes(blobs[layer["digest"].removeprefix("sha256:")])
    with tarfile.open(inside) as tar:
        (member,) = tar.getmembers()
        assert (member.name, member.mode, tar.extractfile(member).read()) == ("pause", 0o755, program.read_bytes())
