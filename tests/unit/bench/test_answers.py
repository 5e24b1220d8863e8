"""The fingerprint tells wrong answers from right ones, and the data have the density that the sizes rest on."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import pytest

from bench.data import FILES, dataset
from bench.workloads import WORKLOADS, Workload, expected, fingerprint


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("data")


def columns(data: Path, side: str) -> dict[str, np.ndarray]:
    return duckdb.connect().execute(f"SELECT * FROM '{data}/parquet/{side}/*.parquet' ORDER BY serial").fetchnumpy()


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_the_expected_answer_is_that_of_all_pairs(workload: Workload, folder: Path) -> None:
    data = dataset(folder, workload.kind, 400)
    r, s = columns(data, "r"), columns(data, "s")
    difference = r["a"][:, None].astype(int) - s["a"][None, :]
    match workload.name:
        case "equality":
            matches = difference == 0
        case "band":
            matches = abs(difference) <= 5
        case _:
            matches = (difference < 0) & (r["b"][:, None] > s["b"][None, :])
    i, j = (places.astype(int) for places in np.nonzero(matches))
    assert len(i) > 10
    assert expected(workload, data) == (len(i), i.sum(), j.sum(), (i * j).sum())


def test_one_wrong_pair_changes_the_fingerprint() -> None:
    right = "VALUES (1, 2), (3, 4), (5, 6)"
    assert fingerprint(f"SELECT * FROM ({right}) t(r_id, s_id)") == (3, 9, 12, 44)
    for wrong in ("VALUES (1, 2), (3, 4)", "VALUES (1, 4), (3, 2), (5, 6)", "VALUES (1, 2), (3, 4), (3, 4)"):
        assert fingerprint(f"SELECT * FROM ({wrong}) t(r_id, s_id)") != (3, 9, 12, 44)


def test_a_data_set_is_made_once_whole_and_the_same_in_both_formats(folder: Path, tmp_path: Path) -> None:
    data = dataset(folder, "dominance", 400)
    assert dataset(folder, "dominance", 400) == data
    assert len(list(data.glob("csv/r/*.csv"))) == len(list(data.glob("parquet/r/*.parquet"))) == FILES
    parquet = duckdb.connect().execute(f"SELECT * FROM '{data}/parquet/s/*.parquet' ORDER BY serial").fetchall()
    assert parquet == duckdb.connect().execute(f"SELECT * FROM '{data}/csv/s/*.csv' ORDER BY serial").fetchall()
    again = dataset(tmp_path, "dominance", 400)
    assert columns(again, "r")["b"].tolist() == columns(data, "r")["b"].tolist()
