"""A figure that falls short is said to, one that is missing keeps its line, and small sizes prove nothing."""

from __future__ import annotations

from importlib import import_module

import pytest

from bench.cases import CASES, Case, Direction, Measured
from bench.engines import Run
from bench.machine import Machine
from bench.report import LINE_HEAD, engine_page, line_rows, terminal
from bench.verdicts import CaseRun, Line, Verdict, core_lines, quantity, rival_lines
from bench.workloads import RIVALS, WORKLOADS

FAST = Case("fast", "rows", "tuples/s", 3e6, Direction.AT_LEAST, "m:f")
SMALL = Case("small", "bytes", "x", 2, Direction.AT_MOST, "m:f")
MACHINE = Machine("cpu", 2, 24, "Linux", "17", "numpy 2", "abc", "2026-11-18", 0.1)


def core(case: Case, value: float, judged: bool = True) -> Line:
    return core_lines([CaseRun(case, Measured(value))], judged)[0]


@pytest.mark.parametrize(
    ("case", "value", "verdict", "share"),
    [
        (FAST, 3e6, Verdict.MET, 1),
        (FAST, 2.99e6, Verdict.SHORT, 2.99 / 3),
        (SMALL, 2, Verdict.MET, 1),
        (SMALL, 2.01, Verdict.SHORT, 1.005),
    ],
)
def test_a_target_is_met_at_its_bound_and_short_beyond(
    case: Case, value: float, verdict: Verdict, share: float
) -> None:
    line = core(case, value)
    assert line.verdict is verdict
    assert line.share == pytest.approx(share)
    assert line.good is not None and (line.good >= 1) == (verdict is Verdict.MET)


def test_small_sizes_prove_nothing() -> None:
    assert core(FAST, 1.0, judged=False).verdict is Verdict.NOT_JUDGED


def test_what_was_not_measured_keeps_its_line_and_its_reason() -> None:
    (line,) = core_lines([CaseRun(FAST, None, "it broke")], True)
    assert (line.verdict, line.note, line.target) == (Verdict.NOT_MEASURED, "it broke", "≥ 3 M tuples/s")


def test_rivals_are_compared_by_seconds_whatever_their_rows() -> None:
    runs = [
        Run("Biclique", "two inequalities", 200_000, 2.0),
        Run("Flink", "two inequalities", 20_000, 7.0),
        Run("Biclique", "equality", 100, 1.0),
        Run("Spark", "equality", 100, why="missing: no Java"),
    ]
    lines = {line.name: line for line in rival_lines(runs, True)}
    assert len(lines) == len(RIVALS)
    nested = lines["two inequalities, beside Flink"]
    assert (nested.measured, nested.verdict) == ("3.50 x", Verdict.SHORT)
    assert nested.what == "200,000 rows a side, Flink 20,000"
    assert lines["equality, beside Spark"].note == "Spark: missing: no Java"
    assert lines["band, beside Pathway"].note == "not part of this run"


def test_the_page_counts_what_is_missing_against_us() -> None:
    lines = [core(FAST, 4e6), core(SMALL, 3), *core_lines([CaseRun(FAST, None, "it broke")], True)]
    text = engine_page(MACHINE, lines, [], [], [], True)
    assert "1 of 3 targets are met. **Short of target: small.** **Not measured: fast.**" in text
    assert "| ✘ | small | bytes | ≤ 2 x | 3 x | 1.50 | short of target |" in text
    assert "targets are met" not in engine_page(MACHINE, lines, [], [], [], False)


def test_the_terminal_aligns_figures_to_the_right() -> None:
    rows = line_rows([core(FAST, 4.123e6), core(SMALL, 1.5)])
    lines = terminal(LINE_HEAD, rows).splitlines()
    ends = {
        line.index(figure) + len(figure) for line, figure in zip(lines[2:], ("4.12 M tuples/s", "1.5 x"), strict=True)
    }
    assert ends == {lines[0].index("measured") + len("measured")}


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (3_214_000, "tuples/s", "3.21 M tuples/s"),
        (1.6e9, "pairs/s", "1.6 G pairs/s"),
        (950, "tuples/s", "950 tuples/s"),
        (7.2, "ms", "7.2 ms"),
    ],
)
def test_quantities_are_read_at_a_glance(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_every_case_is_one_of_its_name_and_names_a_function() -> None:
    assert len({case.name for case in CASES}) == len(CASES)
    for case in CASES:
        module, _, function = case.function.partition(":")
        assert callable(getattr(import_module(module), function))


def test_every_rival_is_asked_for_a_known_workload() -> None:
    assert {rival.workload for rival in RIVALS} <= {workload.name for workload in WORKLOADS}
