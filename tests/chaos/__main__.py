"""Faults on real processes.

python -m tests.chaos                      every fault, 50 kills, at least 200,000 rows a side: about an hour
python -m tests.chaos --brief              the few that make test takes
python -m tests.chaos --keys-first         those on the query that sends keys first: ten minutes
python -m tests.chaos --join FILE FILE     what several runs wrote with --json, as one
python -m tests.chaos --only "its Java:joiner" --only "cut off from Kafka:dispatcher"    these, in this order

The same --seed chooses the same faults, victims and moments. --json FILE writes what was found for programs, --write
FILE the table; of --keys-first, its section of the table that is there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos.brief import BRIEF_SETTING, brief
from tests.chaos.faults import Durations
from tests.chaos.keys_first import KEYS_FIRST_RATE, keys_first
from tests.chaos.report import as_json, document, from_json, summary, with_keys_first
from tests.chaos.run import Outcome, Setting, play
from tests.chaos.schedule import Due, named, whole
from tests.chaos.stage import GROUPED, KEYS_FIRST, PAIRS, Shape

SHAPES = (PAIRS, GROUPED)
RATE, ROWS = 250, 200_000  # of a side; a second, and at least


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="the few that make test takes")
    parser.add_argument("--keys-first", action="store_true", help="those on the query that sends keys first")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS:VICTIM")
    parser.add_argument("--groups", action="store_true", help="with --only: on the query with groups and a merger")
    parser.add_argument("--repeats", type=int, default=1, help="of every fault on every victim")
    parser.add_argument(
        "--rate", type=int, default=None, help=f"rows a second and side; {RATE}, with keys first {KEYS_FIRST_RATE}"
    )
    parser.add_argument("--rows", type=int, default=None, help="of a side at least; 200,000 but for a part of a run")
    parser.add_argument("--no-trim", action="store_true", help="do not trim logs too far at the end")
    parser.add_argument("--join", nargs="+", type=Path, default=[], metavar="FILE")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    outcomes = [outcome for file in args.join for outcome in from_json(file.read_text())] or _run(args)
    if args.json:
        args.json.write_text(as_json(outcomes))
    if args.write:
        alone = all(outcome.shape == KEYS_FIRST.name for outcome in outcomes)
        args.write.write_text(with_keys_first(args.write.read_text(), outcomes) if alone else document(outcomes))
    print(summary(outcomes))
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def _run(args: argparse.Namespace) -> list[Outcome]:
    setting = Setting(args.seed, args.rate or RATE, args.rows or 0, Durations(), not args.no_trim)
    if args.brief:
        return [_played(PAIRS, brief(args.seed), replace(BRIEF_SETTING, seed=args.seed))]
    if args.only:
        wanted = [tuple(each.rsplit(":", 1)) for each in args.only]
        shape = GROUPED if args.groups else PAIRS
        return [_played(shape, named(args.seed, shape, wanted), setting)]
    sooner = replace(setting, rate=args.rate or KEYS_FIRST_RATE, rows=args.rows or ROWS, trimmed=False)
    last = KEYS_FIRST, keys_first(args.seed), sooner
    if args.keys_first:
        return [_played(*last)]
    setting, due = replace(setting, rows=args.rows or ROWS), whole(args.seed, SHAPES, args.repeats)
    return [*(_played(shape, due[shape.name], setting) for shape in SHAPES), _played(*last)]


def _played(shape: Shape, due: list[Due], setting: Setting) -> Outcome:
    def say(text: str) -> None:
        print(time.strftime("%H:%M:%S "), text, flush=True)

    with tempfile.TemporaryDirectory(prefix="biclique-chaos-", ignore_cleanup_errors=True) as folder:
        return play(Path(folder), shape, due, setting, say)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
