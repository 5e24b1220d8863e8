"""What runs found, told again: a fault's line has its numbers, and several runs become one table."""

from __future__ import annotations

from tests.chaos.keeper import Ended
from tests.chaos.report import as_json, document, from_json, summary, with_keys_first
from tests.chaos.run import Outcome, Place, Struck
from tests.chaos.stage import KEYS_FIRST
from tests.chaos.trimmed import Stopped


def outcome(recovered_s: float | None, shape: str = "pairs") -> Outcome:
    struck = Struck("kill -9 of its Java", "joiner", Place(1000, 900, 5), Place(1010, 905, 6), 0.1, recovered_s, "seen")
    return Outcome(
        shape,
        7,
        [struck],
        [] if recovered_s is not None else ["it never came back"],
        {"joiner 4": 1},
        [Stopped("joiner", 4, "biclique: its log was trimmed", ("trimmed",))],
        {"r": 2000, "s": 1900},
        77,
        1,
        2,
        60.0,
    )


def test_what_was_written_for_programs_is_read_again() -> None:
    outcomes = [outcome(3.0), outcome(None)]
    assert from_json(as_json(outcomes)) == outcomes


def test_repeats_of_a_fault_are_one_line_and_a_broken_promise_is_told() -> None:
    told = summary([outcome(3.0), outcome(5.0)])
    (line,) = [line for line in told.splitlines() if "its Java" in line]
    assert "| 2 " in line and "4.0, 5.0" in line and "1,000 → 1,010" in line and "900 → 905" in line
    assert told.endswith("2 faults, 2 of them kills; 0 promises broken")
    assert "it never came back" in summary([outcome(None)]) and "it never came back" in document([outcome(None)])
    assert "`biclique: its log was trimmed`" in document([outcome(3.0)])


def test_keys_first_have_a_section_that_a_run_of_them_alone_writes_again() -> None:
    whole = document([outcome(3.0), outcome(9.0, KEYS_FIRST.name)])
    before, heading, section = whole.partition("## Keys first\n")
    assert heading and "9.0, 9.0" in section and "9.0" not in before and "3.0, 3.0" in before
    again = with_keys_first(whole, [outcome(None, KEYS_FIRST.name)])
    assert again.startswith(before) and again.count(heading) == 1
    assert "Promises broken:\n* keys-first: it never came back\n" in again
    assert with_keys_first(document([outcome(3.0)]), [outcome(9.0, KEYS_FIRST.name)]) == whole


def test_a_tier_that_goes_on_without_its_log_is_wrong() -> None:
    assert Stopped("joiner", 4, "biclique: records were trimmed", ("trimmed",)).wrong() is None
    assert "goes on" in str(Stopped("joiner", None, "", ("trimmed",)).wrong())
    assert "does not say" in str(Stopped("joiner", 4, "biclique: oh", ("trimmed",)).wrong())


def test_the_last_event_that_a_tier_told_is_its_sentence() -> None:
    told = '{"time": "t", "message": "its log is gone: restore it"}'
    assert Ended("joiner", 5, 1.0, f"Java\n{told}\n\tat java.lang\n").sentence == "its log is gone: restore it"
    assert Ended("joiner", 1, 1.0, "Traceback\nValueError: x\n\n").sentence == "ValueError: x"
    assert Ended("joiner", -9, 1.0, "").sentence == ""
