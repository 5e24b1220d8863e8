"""Orders and offers of a web shop, as JSON into two topics, so many of each a second, until it is stopped.

For a look at examples/orders-offers/kubernetes.yaml; the same shop as the example's generate.py makes files of. It
makes the topics that are missing, and waits for a Kafka that is not there yet.
"""

from __future__ import annotations

import json
import math
import os
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime

TOPICS = {"orders": 2, "offers": 2, "pairs": 2}
ARTICLES_AROUND, ARTICLES_SHARE = (12.0, 60.0, 400.0), (0.5, 0.3, 0.2)  # books, shoes, phones
DISORDER_S = 4.0
TURN_S = 0.1


def price(chance: random.Random) -> float:
    return chance.choices(ARTICLES_AROUND, ARTICLES_SHARE)[0] * math.exp(chance.gauss(0.0, 0.25))


def rows(chance: random.Random, number: int, now_s: float) -> dict[str, dict[str, object]]:
    """One order and one offer: topic → row."""
    middle, half = price(chance), chance.uniform(0.0005, 0.0025)
    at = (datetime.fromtimestamp(now_s - chance.uniform(0, DISORDER_S), UTC) for _ in range(2))
    order_at, offer_at = (moment.isoformat(timespec="milliseconds").replace("+00:00", "Z") for moment in at)
    order = {"id": number, "price": round(price(chance), 2), "qty": chance.randint(1, 5), "at": order_at}
    offer = {"id": number, "low": round(middle * (1 - half), 2), "high": round(middle * (1 + half), 2)}
    return {"orders": order, "offers": {**offer, "qty": chance.randint(1, 20), "at": offer_at}}


def due(per_second: float, started_s: float, now_s: float, made: int) -> Iterator[int]:
    """Numbers of the rows that should have been made by now and have not; a second's worth at most, after a pause."""
    wanted = int((now_s - started_s) * per_second)
    yield from range(max(made, wanted - math.ceil(per_second)), wanted)


def make_topics(servers: str) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    while True:
        try:
            there = admin.list_topics(timeout=5).topics
            missing = [NewTopic(name, partitions) for name, partitions in TOPICS.items() if name not in there]
            for made in (admin.create_topics(missing) if missing else {}).values():
                made.result(30)
            return
        except KafkaException as trouble:
            print(f"Kafka at {servers} is not ready: {trouble.args[0].str()}", flush=True)
            time.sleep(2)


def main() -> None:
    from confluent_kafka import Producer

    servers, per_second = os.environ["BOOTSTRAP_SERVERS"], float(os.environ["ROWS_PER_SECOND"])
    make_topics(servers)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    chance, started_s, made = random.Random(), time.time(), 0
    print(f"{per_second:g} orders and as many offers a second go to {servers}", flush=True)
    while True:
        for number in due(per_second, started_s, time.time(), made):
            for topic, row in rows(chance, number, time.time()).items():
                producer.produce(topic, json.dumps(row), key=str(number))
            made = number + 1
        producer.poll(0)
        time.sleep(TURN_S)


if __name__ == "__main__":
    main()
