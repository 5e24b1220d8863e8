"""Visits to a shop as three systems would write them: pages viewed (JSON), items clicked (CSV), purchases (Parquet).

Half of all views lead to a click, a third of the clicks to a purchase, and one buyer in three has a voucher of up to 8.
Rows come up to 5 s out of order. The clicks' system now and then writes a price as text.
"""

from __future__ import annotations

import argparse
import csv
import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FIRST = datetime(2026, 3, 1, 8, tzinfo=UTC)
SECONDS_APART = 0.2
DISORDER_S = 5
VISITORS = 1000
PAGES = ("start", "sale", "news", "search", "imprint")
PRICES = [Decimal("4.99"), Decimal("9.90"), Decimal("19.90"), Decimal("49.00"), Decimal("129.00")]


def at(seconds: float) -> datetime:
    return FIRST + timedelta(seconds=round(seconds, 3))


def generate(into: Path, rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    views, clicks, purchases = [], [], []
    for i in range(rows):
        viewed = i * SECONDS_APART
        visitor, page = int(rng.integers(VISITORS)), PAGES[rng.integers(len(PAGES))]
        views.append((viewed + rng.uniform(0, DISORDER_S), visitor, page, at(viewed)))
        if rng.random() < 0.5:
            clicked = viewed + rng.exponential(30)
            item = int(rng.integers(len(PRICES)))
            clicks.append((clicked + rng.uniform(0, DISORDER_S), visitor, item, PRICES[item], at(clicked)))
            if rng.random() < 0.33:
                bought = clicked + rng.exponential(180)
                voucher = Decimal(int(rng.integers(1, 9))) if rng.random() < 0.33 else Decimal(0)
                paid = max(PRICES[item] - voucher, Decimal("0.99"))
                purchases.append((bought + rng.uniform(0, DISORDER_S), visitor, item, paid, at(bought)))
    for events in (views, clicks, purchases):
        events.sort(key=lambda event: event[0])  # in the order of arrival

    for name in ("views", "clicks", "purchases"):
        (into / name).mkdir(parents=True, exist_ok=True)
    with (into / "views" / "views.json").open("w", encoding="utf-8") as file:
        for _, visitor, page, when in views:
            file.write(json.dumps({"visitor": visitor, "page": page, "at": when.isoformat()}) + "\n")
    with (into / "clicks" / "clicks.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("visitor", "item", "price", "at"))
        for number, (_, visitor, item, price, when) in enumerate(clicks):
            writer.writerow((visitor, item, f"about {price}" if number % 1000 == 7 else price, when.isoformat()))
    _, visitor, item, paid, when = zip(*purchases, strict=True)
    table = {
        "visitor": pa.array(visitor, pa.int64()),
        "item": pa.array(item, pa.int32()),
        "paid": pa.array(paid, pa.decimal128(8, 2)),
        "at": pa.array(when, pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(table), into / "purchases" / "purchases.parquet")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--rows", type=int, default=50_000, help="page views")
    arguments.add_argument("--into", type=Path, default=Path(__file__).parent / "data")
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    generate(chosen.into, chosen.rows, chosen.seed)
    print(f"{chosen.rows:,} views, and what came of them, are in {chosen.into}")
