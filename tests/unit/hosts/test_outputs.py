"""What waits to be written is bounded in bytes, and nothing of it is lost."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from biclique.core.rows import Vector
from biclique.hosts.outputs import Outputs
from biclique.ports.file_sink import FileSink, publish, replace_file
from biclique.query.model import Format
from biclique.tiers.messages import Results
from tests.unit.tiers.building import query

ROWS, TABLES = 50, 12


@pytest.mark.parametrize("bytes_ahead", [0, 3_000, 1 << 30])
def test_tables_wait_for_the_disk_within_their_bytes_and_all_arrive(tmp_path: Path, bytes_ahead: int) -> None:
    made = query("SELECT r.k, s.v FROM r JOIN s ON r.k = s.k")
    outputs = Outputs(made, tmp_path, lambda source, ordinal: "", 0, bytes_ahead)
    try:
        for number in range(TABLES):
            values = np.arange(number * ROWS, (number + 1) * ROWS)
            ids = values.astype(np.uint64)
            columns = (Vector(values.astype(np.int32)), Vector(values))
            outputs.results(Results(columns, ids, ids, np.zeros(ROWS, np.int64)))
            # The size of one table: two columns and the id as text.
            assert outputs.bytes_waiting <= max(bytes_ahead, ROWS * 100)
        parts = outputs.seal()
        assert outputs.bytes_waiting == 0
        publish(tmp_path, parts)
    finally:
        outputs.close()
    written = pq.read_table(tmp_path)
    assert sorted(written.column("v").to_pylist()) == list(range(TABLES * ROWS))


@pytest.mark.parametrize("format_", [Format.PARQUET, Format.CSV, Format.JSON])
def test_a_full_disk_is_said_with_the_file_that_has_no_room(tmp_path: Path, format_: Format) -> None:
    sink = FileSink(tmp_path, "", format_)
    (tmp_path / f".part-000000-0000.{format_.value}").symlink_to("/dev/full")

    def fill() -> None:
        for number in range(100):
            sink.write(pa.table({"v": np.arange(number, number + 10_000)}))
        sink.seal()

    with pytest.raises(OSError, match="No space left") as error:
        fill()
    assert error.value.errno == errno.ENOSPC
    assert error.value.filename == str(tmp_path / f".part-000000-0000.{format_.value}")
    sink.discard()
    assert not list(tmp_path.iterdir())


def test_a_full_disk_under_the_checkpoint_is_said_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.json.new").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as error:
        replace_file(tmp_path / "checkpoint.json", b"state")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "checkpoint.json"))
