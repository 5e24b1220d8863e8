"""Why a tier ended, for whoever looks at its pod."""

from __future__ import annotations

from pathlib import Path

from biclique.cli.last_words import BYTES_MAX, leave_last_words
from biclique.cli.tier import words_of
from biclique.hosts.units.application import End


def test_one_sentence_without_secrets_in_the_file_that_is_there(tmp_path: Path) -> None:
    place = tmp_path / "termination-log"
    place.touch()
    leave_last_words("Redis at redis://user:hidden@host:6379/0\n refuses us; mend it", place)
    assert place.read_text() == "Redis at redis://***@host:6379/0 refuses us; mend it"


def test_a_long_one_is_cut_between_two_characters(tmp_path: Path) -> None:
    place = tmp_path / "termination-log"
    place.touch()
    leave_last_words("x" + "ü" * BYTES_MAX, place)
    assert place.read_text() == "x" + "ü" * ((BYTES_MAX - 1) // 2)


def test_where_there_is_no_such_file_none_is_made(tmp_path: Path) -> None:
    leave_last_words("stopped", tmp_path / "termination-log")
    assert not list(tmp_path.iterdir())


def test_who_was_told_by_a_signal_does_not_say_that_he_was_asked() -> None:
    assert words_of("joiner", End.STOPPED, False) == "the joiner has stopped, as asked"
    assert words_of("joiner", End.STOPPED, True) == "the joiner has stopped, since its process was told to end"
    assert words_of("joiner", End.SUPERSEDED, True).startswith("the joiner has ended, since a later driver")
