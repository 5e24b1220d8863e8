"""Files in, files out: the engine's output is the oracle's, however it is cut, stopped, killed and gone on with."""

from __future__ import annotations

import itertools
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from biclique.hosts import embedded
from biclique.hosts.embedded import Ending
from biclique.hosts.parsing.splitting import BlockMax
from biclique.ports.file_sink import FileSink
from biclique.query.errors import QueryError
from tests.unit.hosts.local_runs import FORMATS, SCHEMA, START, Given, lines, parts, some_rows

ALL = "a.id AS aid, b.id AS bid, a.k, a.x, a.m, a.s, a.b, a.d, b.at"
QUERIES = {
    "equality": f"SELECT {ALL} FROM a JOIN b ON a.k = b.k",
    "window": f"SELECT {ALL} FROM a JOIN b ON a.k = b.k WITHIN 5 SECONDS",
    "inequalities": f"SELECT {ALL} FROM a JOIN b ON a.x < b.x AND a.m > b.m WHERE a.b",
    "self join": (
        "SELECT p.id AS pid, q.id AS qid, p.s FROM a p JOIN a q ON p.k = q.k AND p.m <= q.m JOIN b ON b.d = q.d"
    ),
    "distinct": "SELECT DISTINCT a.k, b.d FROM a JOIN b ON a.k = b.k",
    "groups": "SELECT a.k, COUNT(*) AS n, SUM(b.m) AS total, MAX(b.at) AS last FROM a JOIN b ON a.k = b.k GROUP BY a.k",
    "tumble": (
        "SELECT TUMBLE(10 SECONDS) AS start, a.k, COUNT(*) AS n FROM a JOIN b ON a.k = b.k WITHIN 5 SECONDS"
        " GROUP BY a.k, TUMBLE(10 SECONDS)"
    ),
}


def given(folder: Path, sql: str, format_: str = "parquet", rows: int = 60, seed: int = 1) -> Given:
    made = Given(
        folder,
        sql,
        {"a": SCHEMA, "b": SCHEMA},
        {"a": some_rows(seed, rows), "b": some_rows(seed + 1, rows)},
        format_,
        files={"a": [rows // 3, 0, rows - rows // 3], "b": [rows]},
    )
    made.write()
    return made


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(8, 400))
    monkeypatch.setattr(embedded, "warm_up", lambda plan: None)


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("name", QUERIES)
def test_the_output_is_the_oracles(tmp_path: Path, name: str, format_: str) -> None:
    run = given(tmp_path, QUERIES[name], format_)
    outcome = run.run()
    assert outcome.ending is Ending.FINISHED
    assert run.found() == run.expected()
    assert outcome.summary is not None
    assert [source.read for source in outcome.summary.sources] == [60, 60]
    assert [source.joined + source.filtered for source in outcome.summary.sources] == [60, 60]
    assert outcome.summary.rows_out == sum(run.found().values())
    assert run.run().ending is Ending.NOTHING_TO_DO
    assert run.found() == run.expected()


class Killed(BaseException):
    """In place of kill -9: nothing catches it, and nothing is cleaned up that a kill would not clean up."""


def leave_as_it_is(sink: FileSink) -> None:
    """A kill closes files and removes none."""
    if sink._open is not None:
        sink._open[1].close()


class KillSwitch:
    """Kills at the n-th time that something is made durable, before or after it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self.left, self.fired = at, False
        for module, name in (
            (embedded, "save_state"),
            (embedded, "publish"),
            (embedded, "recover"),
        ):
            monkeypatch.setattr(module, name, self.around(getattr(module, name)))
        monkeypatch.setattr("pathlib.Path.rename", self.around(Path.rename))
        monkeypatch.setattr("pathlib.Path.replace", self.around(Path.replace))
        monkeypatch.setattr("biclique.hosts.outputs.FileSink.discard", leave_as_it_is)

    def around(self, function):  # type: ignore[no-untyped-def]
        def wrapped(*arguments, **named):  # type: ignore[no-untyped-def]
            self.count()
            result = function(*arguments, **named)
            self.count()
            return result

        return wrapped

    def count(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.fired = True
            raise Killed


@pytest.mark.parametrize(
    ("name", "format_"),
    [("window", "csv"), ("self join", "json"), ("groups", "json"), ("distinct", "csv"), ("tumble", "json")],
)
def test_killed_at_every_durable_step_and_gone_on_with(
    tmp_path: Path, name: str, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Barriers all the time; killed at the 1st, 2nd, 3rd … durable step of each life, until a life comes through."""
    run = given(tmp_path, QUERIES[name], format_, rows=40)
    lives = 0
    rng = random.Random(name)
    while True:
        lives += 1
        with monkeypatch.context() as patch:
            switch = KillSwitch(patch, rng.randrange(1, 40) if lives < 25 else 1 << 30)
            try:
                outcome = run.run(barrier_seconds=0.0)
                break
            except Killed:
                assert switch.fired
    assert lives > 5
    assert outcome.ending in (Ending.FINISHED, Ending.NOTHING_TO_DO)
    assert run.found() == run.expected()
    assert not [path for path in run.out.iterdir() if path.name.startswith(".")]


def after_a_while() -> Callable[[], bool]:
    """Ctrl-C, when the engine has been asked a dozen times."""
    asked = itertools.count()
    return lambda: next(asked) >= 12


def test_stopped_at_every_block_and_gone_on_with(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"])
    stops = 0
    while True:
        outcome = run.run(stop=after_a_while())
        assert outcome.summary is not None
        if outcome.ending is Ending.FINISHED:
            break
        stops += 1
        assert outcome.ending is Ending.STOPPED
        assert run.found() <= run.expected()
    assert stops > 2
    assert run.found() == run.expected()
    assert [source.read for source in outcome.summary.sources] == [60, 60]
    assert outcome.summary.rows_out == sum(run.found().values())


def test_following_takes_files_as_they_come(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"], "csv")
    more = [(*row[:-1], row[-1] + 60_000_000) for row in some_rows(7, 30)]
    seen: set[int] = set()  # numbers of part files at which somebody looked

    def stop() -> bool:
        """The world outside: after the first files have been joined a new one appears; after that one, Ctrl-C."""
        if not run.out.exists() or len(parts(run.out)) in seen:
            return False
        seen.add(len(parts(run.out)))
        if run.found() and len(run.rows["a"]) == 60:
            run.rows["a"] += more
            run.write_file(0, "zzz", more)
        return len(run.rows["a"]) > 60 and run.found() == run.expected()

    outcome = run.run(stop=stop, follow=True, barrier_seconds=0.02)
    assert outcome.ending is Ending.STOPPED
    assert len(seen) > 2  # none, the first files', the last one's
    assert run.found() == run.expected()


def test_a_file_that_grew_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"], "csv")
    assert run.run(stop=after_a_while()).ending is Ending.STOPPED
    with (tmp_path / "b" / "000.csv").open("a") as file:
        file.write("1,1,1,1,x,true,2020-01-01,2020-01-01\n")
    with pytest.raises(QueryError, match=r"b/000.csv: the file has changed since the run first saw it; put new rows"):
        run.run()
    run.files = {}
    run.write()
    with pytest.raises(QueryError, match="has changed"):
        run.run()
    assert run.run(restart=True).ending is Ending.FINISHED


def test_after_its_end_a_run_notices_that_its_input_is_another(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"], "csv")
    assert run.run().ending is Ending.FINISHED
    late = run.write_file(0, "zzz", some_rows(7, 3))
    with pytest.raises(QueryError, match=r"a/zzz.csv: the file is new since this run finished; begin anew with --rest"):
        run.run()
    late.unlink()
    assert run.run().ending is Ending.NOTHING_TO_DO
    with (tmp_path / "b" / "000.csv").open("a") as file:
        file.write("1,1,1,1,x,true,2020-01-01,2020-01-01\n")
    with pytest.raises(QueryError, match=r"b/000.csv: the file has changed since the run first saw it; .* --restart"):
        run.run()
    (tmp_path / "b" / "000.csv").unlink()
    assert run.run().ending is Ending.NOTHING_TO_DO, "what was read and is gone is as it is for a run that goes on"
    run.write()
    assert run.run(restart=True).ending is Ending.FINISHED
    assert run.found() == run.expected()


def test_another_query_is_refused_and_restart_begins_anew(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"])
    run.run()
    other = Given(tmp_path, QUERIES["equality"], run.schemas, run.rows)
    with pytest.raises(QueryError, match="it belongs to another query, or this one was changed since"):
        other.run()
    assert run.found() == run.expected()
    assert other.run(restart=True).ending is Ending.FINISHED
    assert other.found() == other.expected()


def test_somebody_elses_folder_is_left_alone(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"])
    run.out.mkdir()
    (run.out / "thesis.txt").write_text("years of work")
    for restart in (False, True):
        with pytest.raises(QueryError, match=r"it is not empty \(thesis.txt\)"):
            run.run(restart=restart)
    assert [path.name for path in run.out.iterdir()] == ["thesis.txt"]


def test_a_damaged_checkpoint_is_said_to_be_one(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"])
    run.run(stop=after_a_while())
    blobs = sorted((run.out / "_checkpoint" / "blobs").iterdir())
    blobs[0].write_bytes(blobs[0].read_bytes()[:-1])
    with pytest.raises(QueryError, match=r"the state of joiner \S+ is missing or damaged; begin anew with --restart"):
        run.run()
    state = run.out / "_checkpoint" / "checkpoint.json"
    state.write_bytes(state.read_bytes().replace(b"barrier", b"carrier"))
    with pytest.raises(QueryError, match=r"checkpoint\.json is damaged"):
        run.run()
    assert run.run(restart=True).ending is Ending.FINISHED
    assert run.found() == run.expected()


def test_a_run_that_is_already_going_is_not_joined(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"])
    refused: list[str] = []

    def stop() -> bool:
        if not refused:
            with pytest.raises(QueryError) as error:
                run.run()
            refused.append(str(error.value))
        return False

    assert run.run(stop=stop).ending is Ending.FINISHED
    assert "another run uses this folder" in refused[0]
    assert run.found() == run.expected()


def test_memory_exhausted_is_a_stop_to_go_on_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(4096))
    run = given(tmp_path, "SELECT a.id AS aid, b.id AS bid, b.at FROM a JOIN b ON a.id = b.id", rows=30_000)
    run.end = "  joiners: {memory: 1Mi}\n"
    assert run.run(look_seconds=0.0).ending is Ending.OUT_OF_MEMORY
    run.end = "  joiners: {memory: 64Mi}\n"
    assert run.run().ending is Ending.FINISHED
    assert sorted(row[:2] for row in run.found()) == [(n, n) for n in range(30_000)]


def test_blocks_read_ahead_count_as_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """b is an hour ahead, so its blocks wait until a is read; no row of it passes the filter, so state stays small."""
    monkeypatch.setattr("biclique.hosts.file_task.BLOCK_MAX", BlockMax(8, 8 << 20))
    sql = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.id = b.id WITHIN 5 SECONDS WHERE b.s < 'x'"
    run = given(tmp_path, sql, "csv", rows=24)
    large = "x" * (1 << 20)
    run.rows["b"] = [(*row[:4], large, *row[5:7], row[7] + 3_600_000_000) for row in run.rows["b"]]
    run.write()

    def wait() -> bool:
        time.sleep(0.5)  # what comes from the tasks is there before it is asked for, however busy the machine is
        return False

    run.end = "  joiners: {memory: 1Mi, replicas: 1}\n"
    outcome = run.run(wait)
    assert outcome.ending is Ending.OUT_OF_MEMORY
    assert outcome.summary is not None
    assert outcome.summary.state_bytes < 1 << 20
    run.end = "  joiners: {memory: 64Mi, replicas: 1}\n"
    assert run.run().ending is Ending.FINISHED
    assert run.found() == run.expected()


# --- late, dead, dropped ---------------------------------------------------------------------------------------------


def bad_lines(run: Given) -> None:
    path = run.folder / "a" / "000.csv"
    text = path.read_bytes().decode().split("\r\n")
    text[3:3] = [
        "1000,many,1,1,x,true,2020-01-01,2023-11-14T22:13:20",
        "1001,1,1,1,x,true,2020-01-01,",
        '1002,1,1,1,"x"y,true,2020-01-01,2023-11-14T22:13:20',
        "1003,1",
        "1004,99999999999,1,1,x,true,2020-01-01,2023-11-14T22:13:20",
        "1005,1,1,12345.67,x,true,2020-01-01,2023-11-14T22:13:20",
    ]
    path.write_bytes("\r\n".join(text).encode())


def test_bad_records_are_dead_with_bytes_place_and_reason(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["equality"], "csv")
    bad_lines(run)
    outcome = run.run()
    assert outcome.summary is not None
    assert (outcome.summary.sources[0].read, outcome.summary.sources[0].dead) == (66, 6)
    assert outcome.summary.first_dead == "a/000.csv, row 3, column k: 'many' is no INT"
    assert run.found() == run.expected()
    dead = {record["row"]: record for record in lines(run.out / "_dead")}
    assert list(dead) == [3, 4, 5, 6, 7, 8]
    assert dead[3] == {
        "source": "a",
        "file": "a/000.csv",
        "row": 3,
        "place": "a/000.csv, row 3, column k",
        "reason": "'many' is no INT",
        "raw": "1000,many,1,1,x,true,2020-01-01,2023-11-14T22:13:20",
        "raw_base64": None,
    }
    assert [dead[row]["reason"] for row in (4, 5, 6, 7, 8)] == [
        "the event time is null",
        "a quote in a field that does not begin with one, or text behind a closing quote",
        "2 fields where the header has 8",
        "'99999999999' is out of the range of INT",
        "'12345.67' is out of the range of DECIMAL(6,2)",
    ]


def test_bad_records_may_be_dropped_or_stop_the_run(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["equality"], "csv")
    bad_lines(run)
    run.more = ", onBadRecord: drop"
    outcome = run.run()
    assert outcome.summary is not None
    assert (outcome.summary.sources[0].dropped, outcome.summary.sources[0].dead) == (6, 0)
    assert not (run.out / "_dead").exists()
    assert run.found() == run.expected()
    run.more = ", onBadRecord: fail"
    with pytest.raises(QueryError, match=r"^a/000.csv, row 3, column k: 'many' is no INT; correct it"):
        run.run(restart=True)


def test_a_bad_record_that_stopped_a_run_may_then_be_set_aside(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["equality"], "csv")
    bad_lines(run)
    run.more = ", onBadRecord: fail"
    with pytest.raises(QueryError, match="choose onBadRecord: deadLetter and go on"):
        run.run()
    run.more = ", onBadRecord: deadLetter"
    assert run.run().ending is Ending.FINISHED
    assert run.found() == run.expected()


def test_a_sum_that_overflows_stops_the_run_with_a_sentence(tmp_path: Path) -> None:
    big = (1 << 62) + 1
    rows = {"a": [(1, 0), (1, 1)], "b": [(big, 0), (big, 1)]}
    schemas = {"a": "k INT, at TIMESTAMP", "b": "v BIGINT, at TIMESTAMP"}
    run = Given(tmp_path, "SELECT SUM(b.v) AS total FROM a JOIN b ON a.k < b.v", schemas, rows)
    run.write()
    with pytest.raises(
        QueryError, match=r"^spec.sql: SUM in column total of the result does not fit into BIGINT; CAST"
    ):
        run.run()


def test_killed_while_it_removed_what_was_there_it_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = given(tmp_path, QUERIES["equality"])
    run.run()
    unlink = Path.unlink

    def killed(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok)
        if path.name.startswith("part-"):
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            run.run(restart=True)
    assert run.run().ending is Ending.FINISHED
    assert run.found() == run.expected()


def test_a_source_that_was_at_its_end_when_the_run_went_on_holds_nothing_back(tmp_path: Path) -> None:
    """Its dispatcher would keep the watermark where it was, and nothing would expire."""
    schema = "id INT, at TIMESTAMP"
    few, many = [(n, n) for n in range(8)], [(n, n * 1_000_000) for n in range(400)]
    sql = "SELECT a.id AS aid, b.id AS bid FROM a JOIN b ON a.id = b.id WITHIN 10 SECONDS"
    run = Given(tmp_path, sql, {"a": schema, "b": schema}, {"a": few, "b": many}, lateness="0s")
    run.write()
    asked = iter([False] * 20 + [True])
    assert run.run(stop=lambda: next(asked)).ending is Ending.STOPPED
    outcome = run.run()
    assert outcome.summary is not None and outcome.summary.watermark is not None
    assert outcome.summary.watermark > 8_000_000, "beyond the times of the source that had ended"
    assert run.found() == run.expected()


def test_late_rows_are_set_aside_and_accounted_for(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["equality"])
    run.lateness = "0s"
    late = [(1000 + n, 1, 1.0, 1, "x", True, 0, START - 10_000_000) for n in range(5)]
    run.write_file(0, "zzz", late)
    outcome = run.run()
    assert outcome.summary is not None
    source = outcome.summary.sources[0]
    assert (source.read, source.late + source.joined) == (65, 65)
    found = lines(run.out / "_late")
    assert len(found) == sum(s.late for s in outcome.summary.sources)
    mine = [record for record in found if record["_file"] == "a/zzz.parquet"]
    assert [record["_row"] for record in mine] == [1, 2, 3, 4, 5]
    assert mine[0]["_event_time"] == "2023-11-14T22:13:10.000000Z"
    assert (mine[0]["id"], mine[0]["k"], mine[0]["_source"]) == (1000, 1, "a")


@pytest.mark.parametrize(
    ("format_", "content", "sentence"),
    [
        (
            "csv",
            b"id,k\n1,2\n",
            r"a/000.csv: the header has no column x \(it has id, k\); correct the header or .*case",
        ),
        ("csv", b'id,"k\n', r"a/000.csv: the header is malformed: a quote is not closed"),
        ("parquet", b"PAR1 not really", r"a/000.parquet: no parquet file: "),
    ],
)
def test_unreadable_files_get_a_sentence(tmp_path: Path, format_: str, content: bytes, sentence: str) -> None:
    run = given(tmp_path, QUERIES["equality"], format_)
    (tmp_path / "a" / f"000.{format_}").write_bytes(content)
    with pytest.raises(QueryError, match=sentence):
        run.run()


def test_a_parquet_of_another_type_gets_a_sentence(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["equality"])
    wrong = Given(tmp_path, run.sql, {"a": SCHEMA.replace("k INT", "k STRING"), "b": SCHEMA}, run.rows)
    wrong.sql = "SELECT a.id FROM a JOIN b ON a.k = b.s"
    with pytest.raises(QueryError, match=r"a/000\.parquet: column k is int32 in the file and STRING in the schema"):
        wrong.run()


def test_the_state_is_json_that_a_person_can_read(tmp_path: Path) -> None:
    run = given(tmp_path, QUERIES["window"])
    run.run()
    _, _, body = (run.out / "_checkpoint" / "checkpoint.json").read_bytes().partition(b"\n")
    state = json.loads(body)
    assert (state["finished"], [source["at"][3] for source in state["sources"]]) == (True, [60, 60])
