"""Jars come once, and none is used that the lock does not name with its checksum."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from infra import jars
from infra.jars import SETS, JarSet, NoJars, jars_of, read_lock

ONE = JarSet("one", (("org", "a", "1"),), transitive=False)
RIGHT = {"a-1.jar": b"a", "b-2.jar": b"b"}


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (f"{hashlib.sha256(data).hexdigest()}  one/{name}" for name, data in RIGHT.items())
    (tmp_path / "jars.lock").write_text("\n".join(("# a comment", *lines, "")))
    monkeypatch.setattr(jars, "LOCK", tmp_path / "jars.lock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


class Central:
    """What a fetch brings."""

    def __init__(self, brings: dict[str, bytes]) -> None:
        self.brings, self.asked = brings, 0

    def __call__(self, jar_set: JarSet, target: Path) -> None:
        self.asked += 1
        target.mkdir()
        for name, data in self.brings.items():
            (target / name).write_bytes(data)


@pytest.mark.usefixtures("lock")
def test_what_the_lock_names_is_fetched_once() -> None:
    central = Central(RIGHT)
    folder = jars_of(ONE, central)
    assert {jar.name: jar.read_bytes() for jar in folder.iterdir()} == RIGHT
    assert jars_of(ONE, central) == folder
    assert central.asked == 1


@pytest.mark.usefixtures("lock")
@pytest.mark.parametrize(
    ("brings", "named"),
    [
        ({**RIGHT, "b-2.jar": b"another"}, "b-2.jar"),
        ({**RIGHT, "c-3.jar": b"c"}, "c-3.jar"),
        ({"a-1.jar": b"a"}, "b-2.jar"),
    ],
)
def test_what_differs_from_the_lock_is_named_and_never_used(
    brings: dict[str, bytes], named: str, tmp_path: Path
) -> None:
    with pytest.raises(NoJars, match=f"^one: not what infra/jars.lock names: {named}$"):
        jars_of(ONE, Central(brings))
    assert not list((tmp_path / "cache").rglob("*.jar"))


def test_the_lock_has_the_versions_that_are_asked_for() -> None:
    lock = read_lock()
    assert set(lock) == {jar_set.name for jar_set in SETS}
    for jar_set in SETS:
        wanted = {f"{name}-{version}.jar" for _, name, version in jar_set.modules}
        assert wanted <= set(lock[jar_set.name])
        assert jar_set.transitive or wanted == set(lock[jar_set.name])
