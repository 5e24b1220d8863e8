"""Faults on real processes.

python -m tests.chaos                      every fault, 50 kills, at least 200,000 rows a side: about an hour
python -m tests.chaos --brief              the few that make test takes
python -m tests.chaos --join FILE FILE     what several runs wrote with --json, as one
python -m tests.chaos --only "its Java:joiner" --only "cut off from Kafka:dispatcher"    these, in this order

The same --seed chooses the same faults, victims and moments. --json FILE writes what was found for programs, --write
FILE the table.
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
from tests.chaos.report import as_json, document, from_json, summary
from tests.chaos.run import Outcome, Setting, play
from tests.chaos.schedule import Due, named, whole
from tests.chaos.stage import GROUPED, PAIRS, Shape

SHAPES = (PAIRS, GROUPED)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="the few that make test takes")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS:VICTIM")
    parser.add_argument("--groups", action="store_true", help="with --only: on the query with groups and a merger")
    parser.add_argument("--repeats", type=int, default=1, help="of every fault on every victim")
    parser.add_argument("--rate", type=int, default=250, help="rows a second and side")
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
        args.write.write_text(document(outcomes))
    print(summary(outcomes))
    return 1 if any(outcome.wrong for outcome in outcomes) else 0


def _run(args: argparse.Namespace) -> list[Outcome]:
    setting = Setting(args.seed, args.rate, args.rows or 0, Durations(), not args.no_trim)
    if args.brief:
        setting, due = replace(BRIEF_SETTING, seed=args.seed), {PAIRS.name: brief(args.seed)}
    elif args.only:
        wanted = [tuple(each.rsplit(":", 1)) for each in args.only]
        shape = GROUPED if args.groups else PAIRS
        due: dict[str, list[Due]] = {shape.name: named(args.seed, shape, wanted)}
    else:
        setting = replace(setting, rows=args.rows or 200_000)
        due = whole(args.seed, SHAPES, args.repeats)
    return [_played(shape, due[shape.name], setting) for shape in SHAPES if shape.name in due]


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
