"""What was read, late and dead rows among it, beside what must have come out: row by row, and each once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tests.chaos.flow import Flow
from tests.chaos.reader import Reader
from tests.chaos.set_aside import set_aside
from tests.chaos.truth import SIDES, Given

END_LIMIT_S, SILENCE_S, LOOK_S = 240.0, 60.0, 2.0


@dataclass(frozen=True)
class Judged:
    """`wrong`: promises that were broken, each a sentence."""

    wrong: list[str]
    late: int
    dead: int


def judge(flow: Flow, reader: Reader, bootstrap: str, prefix: str, say: Callable[[str], None]) -> Judged:
    """The input rests from here on, and results are waited for until they are right, or none come any more. `prefix`:
    of the query's topics."""
    flow.pause()
    given = flow.given
    say(f"the input rests at {flow.sent['r']:,} and {flow.sent['s']:,} rows; judging")
    seen, since = reader.read, time.monotonic()
    deadline = since + END_LIMIT_S
    while (wrong := difference(reader, given)) and time.monotonic() < min(deadline, since + SILENCE_S):
        time.sleep(LOOK_S)
        if reader.read != seen:
            seen, since = reader.read, time.monotonic()
    wanted_late = Counter((side, number) for side in SIDES for number in given.late[side])
    wanted_dead = Counter(given.dead)
    while True:
        late, dead = set_aside(bootstrap, prefix)
        aside = compared("late rows", late, wanted_late) + compared("dead rows", dead, wanted_dead)
        if not aside or time.monotonic() > since + SILENCE_S:
            break
        time.sleep(LOOK_S)  # they are no results, so nobody has waited for them
    wrong += [*reader.wrong, *aside]
    say(f"judged: {len(wrong)} promises broken")
    return Judged(wrong, late.total(), dead.total())


def difference(reader: Reader, given: Given) -> list[str]:
    pairs, found = reader.so_far()
    if not reader.by_groups:
        return compared("pairs", pairs, given.pairs())
    wanted = given.groups()
    wrong = {group for group in wanted.keys() | found.keys() if wanted.get(group) != found.get(group)}
    return [f"group {group}: {found.get(group)}, and {wanted.get(group)} is right" for group in sorted(wrong)[:3]]


def beyond(reader: Reader, given: Given) -> list[str]:
    """What was read and is not true: nothing, also where a tier has stopped."""
    pairs, groups = reader.so_far()
    if reader.by_groups:
        wanted = given.groups()
        more = [group for group, found in groups.items() if found[0] > wanted.get(group, (0, 0))[0]]
        return [*reader.wrong, *(f"group {group} counts pairs that are none" for group in more[:3])]
    return [*reader.wrong, *(f"pair {pair} is none" for pair in list(pairs - given.pairs())[:3])]


def compared(what: str, found: Counter, wanted: Counter) -> list[str]:  # type: ignore[type-arg]
    said = []
    for word, wrong in (("missing", wanted - found), ("too many", found - wanted)):
        if wrong:
            said.append(f"{wrong.total():,} {what} {word} of {wanted.total():,}, first: {sorted(wrong)[:5]}")
    return said
