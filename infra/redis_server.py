"""A real Redis, for tests and for a person at a terminal: no persistence, and never evicting, as checkpoints need."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import redis

from infra import processes


@dataclass(frozen=True)
class RedisServer:
    folder: Path
    port: int
    host: str = "127.0.0.1"
    memory: str = "1gb"

    @property
    def url(self) -> str:
        return f"redis://{self.host}:{self.port}/0"

    def start(self) -> subprocess.Popen[bytes]:
        program = shutil.which("redis-server")
        if program is None:
            raise processes.DidNotStart("redis-server is not on the path; `make setup` installs it where it may")
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [program, "--port", str(self.port), "--bind", self.host, "--dir", str(self.folder), "--save", ""]
        command += ["--appendonly", "no", "--maxmemory", self.memory, "--maxmemory-policy", "noeviction"]
        return processes.start(command, self.folder, self.answers)

    def answers(self) -> bool:
        try:
            return bool(redis.Redis(host=self.host, port=self.port, socket_timeout=1).ping())
        except redis.RedisError:
            return False
