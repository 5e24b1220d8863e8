"""Some rows of a topic, as JSON, the first that are there or else the first that come:

    kubectl -n biclique exec deployment/biclique-load -- python /etc/biclique/load/results.py pairs

As whoever uses them should read them, too: only what is committed. Each is then there once, whatever broke meanwhile.
"""

from __future__ import annotations

import argparse
import os
import sys
import time


def main(topic: str, rows: int, seconds: float) -> None:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    servers = os.environ["BOOTSTRAP_SERVERS"]
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "results", "isolation.level": "read_committed"})
    partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
    deadline = time.monotonic() + seconds
    while rows and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            print(message.value().decode(), flush=True)
            rows -= 1
    consumer.close()
    if rows:
        sys.exit(f"{topic} has no more; so many were wanted still: {rows}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("topic")
    arguments.add_argument("--rows", type=int, default=5)
    arguments.add_argument("--seconds", type=float, default=30, help="how long to wait for them")
    chosen = arguments.parse_args()
    main(chosen.topic, chosen.rows, chosen.seconds)
