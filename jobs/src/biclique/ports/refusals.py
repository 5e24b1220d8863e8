"""What is wrong outside of us, in two kinds, each as one sentence: what passes by itself, and what a person must mend.

`Unreachable` is tried again, with growing pauses, as long as it lasts. `Refused` ends whoever meets it: trying again
would end in the same way, and nothing is lost, since nothing was committed.
"""

from __future__ import annotations


class Unreachable(Exception):
    """It may pass: try again."""


class Undecided(Exception):
    """Nobody knows what became of a transaction: whoever begins anew learns it. `may_pass`: as when a broker is away;
    else it is a failure like any other."""

    def __init__(self, why: str, may_pass: bool) -> None:
        super().__init__(why)
        self.may_pass = may_pass


class Refused(Exception):
    """It does not pass: the sentence says what to mend."""


class StartAnew(Refused):
    """It does not pass in this process, and may in one that is started anew."""


class OldCopy(Refused):
    """What this process was given is not what it was to be given, and its successor will be."""


class UnfitTopic(Refused):
    """A topic is missing, or what is there would not do; the sentence says what."""
