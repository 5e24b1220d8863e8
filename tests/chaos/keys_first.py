"""The faults that concern keys first alone, on a query of its own: its units read payload again from the shuffled topic
when a pair matches, so they are cut off from it, replay, and meet their own zombies while they do.

Its joiners of each side are a driver of their own (`Shape.apart`): who is struck has a sibling that goes on."""

from __future__ import annotations

from tests.chaos.schedule import Due, named
from tests.chaos.stage import KEYS_FIRST

KEYS_FIRST_RATE = 400  # rows a second and side: fewer faults than elsewhere meet as many rows
CHOSEN = (
    ("Python worker", "joiner"),
    ("broker killed", "kafka"),
    ("all its processes", "dispatcher"),
    ("answers are lost", "joiner"),
    ("checkpoint truncated", "joiner"),
    ("twice in a row", "joiner"),
    ("all its processes", "shuffler"),
    ("comes back as a zombie", "joiner"),
    ("Redis flushed", "joiner"),
    ("its Java", "joiner"),
    ("cut off from Kafka, both ways", "joiner"),
    ("cut off from Kafka, requests", "joiner"),
    ("cut off from Redis, both ways", "joiner"),
    ("stands still, goes on", "joiner"),
)


def keys_first(seed: int) -> list[Due]:
    return named(seed, KEYS_FIRST, CHOSEN)
