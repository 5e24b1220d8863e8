"""`make demo`: two streams joined on a price band, shown, and counted a second time by another engine.

The second count is DuckDB's, from the same files, and shares nothing with Biclique: it cuts prices and times into
buckets, joins the buckets by equality and tests every pair that meets. Rows that Biclique set aside as late are left
out of it. Both must agree on the number of pairs and on the sums of the ids, and no result id may be there twice.
"""

from __future__ import annotations

import argparse
import math
import runpy
import shutil
import subprocess
import sys
import time
from pathlib import Path

import duckdb

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE / "orders-offers"
BICLIQUE = Path(sys.executable).with_name("biclique")
BAR = 48

SECOND_COUNT = """
WITH o AS (
    SELECT id, price, qty, epoch_us("at") AS t,
           floor(ln(price) / 0.005)::INT AS price_bucket, epoch_us("at") // 600000000 AS time_bucket
    FROM read_parquet('{data}/orders/*.parquet') WHERE price IS NOT NULL
), kept AS (
    SELECT * FROM read_parquet('{data}/offers/*.parquet') WHERE id NOT IN (SELECT id FROM late_offers)
), f AS (
    SELECT id, low, high, qty, epoch_us("at") AS t, epoch_us("at") // 600000000 AS bucket,
           unnest(range(floor(ln(low) / 0.005)::INT, floor(ln(high) / 0.005)::INT + 1)) AS price_bucket
    FROM kept
), g AS (SELECT *, unnest([bucket - 1, bucket, bucket + 1]) AS time_bucket FROM f)
SELECT count(*), sum(o.id), sum(g.id)
FROM o JOIN g ON o.price_bucket = g.price_bucket AND o.time_bucket = g.time_bucket
WHERE o.price BETWEEN g.low AND g.high AND o.qty <= g.qty AND abs(o.t - g.t) <= 600000000
"""


FIRST_PAIRS = """
SELECT p.order_id, p.price, p.qty, p.offer_id, f.low, f.high, f.qty AS in_stock
FROM (
    SELECT order_id, price, qty, min(offer_id) AS offer_id FROM {pairs} GROUP BY ALL ORDER BY order_id LIMIT 8
) p JOIN read_parquet('{data}/offers/*.parquet') f ON f.id = p.offer_id ORDER BY p.order_id
"""
OUR_COUNT = "SELECT count(*), sum(order_id), sum(offer_id), count(DISTINCT _result_id) FROM {pairs}"


def title(text: str) -> None:
    print(f"\n── {text} " + "─" * max(0, 96 - len(text)), flush=True)


def biclique(command: str, manifest: Path, until: str | None = None) -> None:
    """Runs it; of its output only what stands before the line that begins with `until`, where that is given."""
    print(f"$ .venv/bin/biclique {command} {manifest}", flush=True)
    done = subprocess.run([BICLIQUE, command, manifest], stdout=None if until is None else subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    if until is not None:
        print(done.stdout.decode().split(f"\n  {until}")[0] + "\n  …")


def show_table(query: str) -> None:
    found = duckdb.sql(query)
    cells = [[str(value) for value in row] for row in found.fetchall()]
    widths = [max(len(name), *(len(row[i]) for row in cells)) for i, name in enumerate(found.columns)]
    for row in [found.columns, ["─" * width for width in widths], *cells]:
        print("  " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def show_picture(query: str) -> None:
    """Prices in steps of equal ratio."""
    bands = duckdb.sql(query).fetchall()
    most = max(count for _, count in bands)
    for band, count in bands:
        low, high = (math.exp(edge / 4) for edge in (band, band + 1))
        eighths = round(count / most * BAR * 8)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        print(f"  {low:7.2f} – {high:7.2f}  {bar} {count:,}")


def set_late_offers(folder: Path) -> None:
    """The ids that Biclique set aside, and says so, in a table for the second count."""
    duckdb.sql("CREATE TABLE late_offers (id BIGINT)")
    if any((folder / "_late").glob("*.json")):
        read = f"read_json('{folder}/_late/*.json', columns = {{_source: 'VARCHAR', id: 'BIGINT'}})"
        duckdb.sql(f"INSERT INTO late_offers SELECT id FROM {read} WHERE _source = 'offers'")


def main(rows: int, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    manifest = folder / "join.yaml"
    shutil.copy(EXAMPLE / "join.yaml", manifest)
    shown = manifest.relative_to(Path.cwd()) if manifest.is_relative_to(Path.cwd()) else manifest

    title("The data")
    days = rows / 5 / 86400
    print(f"{rows:,} orders and as many offers of {days:.1f} days: out of order, some late, some without a price.")
    runpy.run_path(str(EXAMPLE / "generate.py"))["generate"](folder / "data", rows, seed=1)

    title("The plan")
    biclique("explain", shown, until="routing")

    title("The join")
    biclique("run", shown)

    pairs = f"read_parquet('{folder}/out/*.parquet')"
    title("The first orders, each with its first offer")
    show_table(FIRST_PAIRS.format(pairs=pairs, data=folder / "data"))

    title("Pairs by price: books, shoes, phones")
    show_picture(f"SELECT floor(ln(price) * 4)::INT AS band, count(*) FROM {pairs} GROUP BY 1 ORDER BY 1")

    title("The same, counted by DuckDB")
    started = time.monotonic()
    set_late_offers(folder / "out")
    [(count, *sums, ids)] = duckdb.sql(OUR_COUNT.format(pairs=pairs)).fetchall()
    [(their_count, *their_sums)] = duckdb.sql(SECOND_COUNT.format(data=folder / "data")).fetchall()
    print(f"Biclique {count:,} pairs, DuckDB {their_count:,}; {count - ids:,} result ids are there twice.")
    if (count, sums, ids) != (their_count, their_sums, count):
        sys.exit("They differ: that is a bug. Please report it, with this output.")
    print(f"They agree, also on the sums of the ids ({time.monotonic() - started:.1f} s to count).")
    print("\nNext: docs/first-join.md, five minutes to a join of your own files.")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=2_000_000, help="orders, and as many offers")
    arguments.add_argument("--into", type=Path, default=Path("out/demo"), help="a folder to fill; emptied first")
    chosen = arguments.parse_args()
    main(chosen.rows, chosen.into.resolve())
