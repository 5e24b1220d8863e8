"""Kafka and Redis for a person at a terminal: `python -m infra up | status | down`.

They run on until `down`, keep their data between starts, and listen on this machine only. With `--secure` they ask for
TLS and passwords, which are made at random and kept in their folder.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from infra import processes
from infra.jars import NoJars, cache_folder
from infra.kafka_server import KafkaServer
from infra.redis_server import RedisServer
from infra.security import Security


@dataclass(frozen=True)
class Service:
    name: str
    folder: Path
    address: str
    start: Callable[[], subprocess.Popen[bytes]]
    answers: Callable[[], bool]

    @property
    def process(self) -> psutil.Process | None:
        """None where it does not run. A number that another program got meanwhile is not taken for ours."""
        try:
            process = psutil.Process(int((self.folder / "pid").read_text()))
            return process if Path(process.cwd()) == self.folder.resolve() else None
        except (FileNotFoundError, psutil.Error):
            return None


def services(folder: Path, kafka_port: int, redis_port: int, security: Security | None = None) -> tuple[Service, ...]:
    kafka = KafkaServer(folder / "kafka", kafka_port, kafka_port + 1, security=security)
    redis = RedisServer(folder / "redis", redis_port, security=security)
    return (
        Service("Kafka", kafka.folder, kafka.bootstrap, kafka.start, kafka.answers),
        Service("Redis", redis.folder, redis.url, redis.start, redis.answers),
    )


def up(found: tuple[Service, ...]) -> None:
    for service in found:
        if service.process is None:
            if service.answers():
                sys.exit(f"{service.name}: something else answers at {service.address}; choose another port")
            service.folder.mkdir(parents=True, exist_ok=True)
            (service.folder / "pid").write_text(f"{service.start().pid}\n")
    status(found)


def status(found: tuple[Service, ...]) -> None:
    for service in found:
        state = "down" if service.process is None else "up" if service.answers() else "does not answer"
        print(f"{service.name:<6} {state:<16} {service.address:<28} log: {service.folder / 'log'}")


def down(found: tuple[Service, ...]) -> None:
    for service in found:
        process = service.process
        if process is not None:
            process.terminate()
            _, left = psutil.wait_procs([process], processes.STOP_LIMIT_S)
            for process in left:
                process.kill()
        (service.folder / "pid").unlink(missing_ok=True)
    status(found)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra", description=__doc__)
    parser.add_argument("verb", choices=("up", "status", "down"))
    parser.add_argument("--folder", type=Path, help="where data and logs are")
    parser.add_argument("--secure", action="store_true", help="with TLS and passwords; another folder, other data")
    parser.add_argument("--kafka-port", type=int, default=9092, help="and the next one, for Kafka's controller")
    parser.add_argument("--redis-port", type=int, default=6379)
    parser.add_argument("--fresh", action="store_true", help="with down: remove the data too")
    wanted = parser.parse_args()
    folder = wanted.folder or cache_folder() / ("services-secure" if wanted.secure else "services")
    security = Security(folder) if wanted.secure else None
    found = services(folder, wanted.kafka_port, wanted.redis_port, security)
    try:
        {"up": up, "status": status, "down": down}[wanted.verb](found)
    except (processes.DidNotStart, NoJars) as failure:
        sys.exit(str(failure))
    if wanted.verb == "down" and wanted.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    if wanted.verb == "up" and security is not None:
        print(f"Secrets (secretRef: kafka, kafka-plain, redis): BICLIQUE_SECRETS={security.secrets}")


if __name__ == "__main__":
    main()
