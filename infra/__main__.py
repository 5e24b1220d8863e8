"""Kafka and Redis for a person at a terminal: `python -m infra up | status | down`.

They run on until `down`, keep their data between starts, and listen on this machine only, or with `--listen` at another
of its addresses: the test cluster's bridge, at which pods reach them. With `--secure` they ask for TLS and passwords,
which are made at random and kept in their folder.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from infra import processes, services
from infra.jars import NoJars, cache_folder
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from infra.security import Security
from infra.services import Service

HERE = "127.0.0.1"


def kafka_and_redis(
    folder: Path, address: str, kafka_port: int, redis_port: int, security: Security | None = None
) -> tuple[Service, ...]:
    kafka = KafkaServer(folder / "kafka", kafka_port, kafka_port + 1, advertised=address, security=security)
    redis = RedisServer(folder / "redis", redis_port, host=address, security=security)
    return (
        Service("Kafka", kafka.folder, kafka.bootstrap, kafka.start, kafka.answers),
        Service("Redis", redis.folder, redis.url, redis.start, redis.answers),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra", description=__doc__)
    parser.add_argument("verb", choices=("up", "status", "down"))
    parser.add_argument("--folder", type=Path, help="where data and logs are")
    parser.add_argument("--secure", action="store_true", help="with TLS and passwords; another folder, other data")
    parser.add_argument("--listen", default=HERE, metavar="ADDRESS", help="other folder, other data for each")
    parser.add_argument("--kafka-port", type=int, default=9092, help="and the next one, for Kafka's controller")
    parser.add_argument("--redis-port", type=int, default=6379)
    parser.add_argument("--fresh", action="store_true", help="with down: remove the data too")
    wanted = parser.parse_args()
    folder = wanted.folder or cache_folder() / _folder_name(wanted.secure, wanted.listen)
    security = Security(folder, tuple({HERE, wanted.listen})) if wanted.secure else None
    if security is not None and wanted.verb == "up":
        security.make()  # before anybody asks, as a user, whether something answers
    found = kafka_and_redis(folder, wanted.listen, wanted.kafka_port, wanted.redis_port, security)
    try:
        if wanted.verb == "up":
            services.up(found)
        elif wanted.verb == "down":
            services.down(found)
    except (processes.DidNotStart, NoJars) as failure:
        sys.exit(str(failure))
    services.status(found)
    if wanted.verb == "down" and wanted.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    if wanted.verb == "up" and security is not None:
        print(f"Secrets (secretRef: kafka, kafka-plain, redis): BICLIQUE_SECRETS={security.secrets}")


def _folder_name(secure: bool, address: str) -> str:
    return "-".join(["services", *(["secure"] if secure else []), *([] if address == HERE else [address])])


if __name__ == "__main__":
    main()
