"""What images install is what the tests have: their locks are cut out of requirements.lock, and say nothing else."""

from __future__ import annotations

from images.locks import ROOT, image_locks, needed, read_lock

LOCK = """\
a==1 \\
    --hash=sha256:01
    # via -r requirements.in
b-c==2 \\
    --hash=sha256:02 \\
    --hash=sha256:03
    # via
    #   -r requirements.in
    #   a
d==3 \\
    --hash=sha256:04
    # via b-c
e==4 \\
    --hash=sha256:05
    # via -r requirements.in
"""


def test_the_locks_of_images_are_those_of_the_tests() -> None:
    for path, text in image_locks().items():
        assert (ROOT / path).read_text() == text, f"{path}: make lock"


def test_a_lock_is_cut_to_what_is_needed() -> None:
    assert needed(read_lock(LOCK), {"a"}) == (
        "a==1 \\\n    --hash=sha256:01\n"
        "b-c==2 \\\n    --hash=sha256:02 \\\n    --hash=sha256:03\n"
        "d==3 \\\n    --hash=sha256:04\n"
    )
    assert needed(read_lock(LOCK), {"e"}) == "e==4 \\\n    --hash=sha256:05\n"
