"""The simulator's commands.

python -m tests.simulation simulate --seed 17 [--all]   one run, its story and the verdict
python -m tests.simulation seeds --count 3000 --jobs 2  many runs, and what they came across; the first failure is told
python -m tests.simulation planted --replay --jobs 2    every planted bug, with the seed that caught it
python -m tests.simulation planted --hunt --jobs 2      look for the seeds anew, and write the list
python -m tests.simulation soak --minutes 60            seeds, fuzz inputs and planted bugs until stopped
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.runs import Verdict


PROGRESS_SECONDS = 15


def seeds(first: int, count: int, jobs: int) -> int:
    from tests.simulation.coverage import SEEDS_ENOUGH, matrix, table, unseen
    from tests.simulation.runs import story_of, verdicts

    failed, happened = tally(verdicts(range(first, first + count), jobs), count)
    if failed:
        print(story_of(failed[0].seed))
        for verdict in failed:
            print(f"again: {again(verdict.seed)}")
    else:
        print(table(happened))
        print(matrix(happened))
    lacking = unseen(happened) if count >= SEEDS_ENOUGH else []
    if lacking:
        print(f"no run came across: {', '.join(lacking)}. Make the world go there again (tests/simulation/focus.py).")
    print(f"{count - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or lacking else 0


def again(seed: int) -> str:
    return f"make simulate SEED={seed}, or python -m tests.simulation simulate --seed {seed} --all"


def tally(found: Iterable[Verdict], count: int) -> tuple[list[Verdict], Counter[str]]:
    """Those that failed, each told in a line, and what all came across; and now and then how far it is."""
    began = said = time.monotonic()
    failed: list[Verdict] = []
    happened: Counter[str] = Counter()
    for done, verdict in enumerate(found, 1):
        happened.update(verdict.happened)
        if not verdict.passed:
            failed.append(verdict)
            print(f"seed {verdict.seed}: {verdict.violations[0]}", flush=True)
        now = time.monotonic()
        if now - said >= PROGRESS_SECONDS or done == count:
            said = now
            print(f"{done} of {count} seeds, {done / (now - began):.1f} seeds/s, {len(failed)} failed", flush=True)
    return failed, happened


def simulate(seed: int, whole: bool) -> int:
    from tests.simulation.runs import story_of

    story = story_of(seed, whole)
    print(story)
    if story.endswith("every promise was kept"):
        return 0
    print(f"again: {again(seed)}")
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("simulate", help="one run with its story")
    one.add_argument("--seed", type=int, default=1)
    one.add_argument("--all", action="store_true", help="the whole story, not its beginning and its end")
    many = commands.add_parser("seeds", help="many runs")
    many.add_argument("--first", type=int, default=0)
    many.add_argument("--count", type=int, default=3000)
    many.add_argument("--jobs", type=int, default=2)
    bugs = commands.add_parser("planted", help="planted bugs")
    how = bugs.add_mutually_exclusive_group(required=True)
    how.add_argument("--replay", action="store_true")
    how.add_argument("--hunt", action="store_true")
    how.add_argument("--seek", action="store_true", help="hunt among other seeds, and write nothing")
    bugs.add_argument("--first", type=int, default=0, help="where --seek begins")
    bugs.add_argument("--only", default="", help="those whose name has this in it")
    bugs.add_argument("--seeds", type=int, default=3000, help="how many to try for each")
    bugs.add_argument("--missing", action="store_true", help="those that no seed has caught yet")
    bugs.add_argument("--jobs", type=int, default=2)
    long = commands.add_parser("soak", help="everything, for as long as one likes")
    long.add_argument("--minutes", type=float, default=float("inf"), help="stop when so many have passed")
    long.add_argument("--first", type=int, default=None, help="the seed to go on with; else one by chance")
    long.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    match args.command:
        case "simulate":
            return simulate(args.seed, args.all)
        case "planted":
            from tests.simulation import planted

            if args.replay:
                return planted.replay(args.jobs)
            if args.seek:
                return planted.seek(args.jobs, args.only, args.first)
            return planted.hunt(args.jobs, args.only, args.seeds, args.missing)
        case "soak":
            from tests.simulation.soak import soak

            return soak(args.minutes, args.jobs, args.first)
        case _:
            return seeds(args.first, args.count, args.jobs)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped")
