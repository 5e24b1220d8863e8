"""A real Redis, for tests and for a person at a terminal: no persistence, and never evicting, as checkpoints need.
`security`: TLS, and a user who may do what a store of checkpoints does; without it, anybody comes in, or with
`password`, who knows it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import redis

from infra import processes
from infra.certificates import write_private
from infra.security import Security


@dataclass(frozen=True)
class RedisServer:
    folder: Path
    port: int
    host: str = "127.0.0.1"
    memory: str = "1gb"
    security: Security | None = None
    policy: str = "noeviction"
    password: str = ""

    @property
    def url(self) -> str:
        """Without a user: whoever needs one has a Secret."""
        return f"{'rediss' if self.security else 'redis'}://{self.host}:{self.port}/0"

    def start(self) -> subprocess.Popen[bytes]:
        program = shutil.which("redis-server")
        if program is None:
            raise processes.DidNotStart("redis-server is not on the path; `make setup` installs it where it may")
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [program]
        if self.security is None:
            command += ["--port", str(self.port)]
        else:
            self.security.make()
            write_private(self.folder / "redis.conf", self.security.redis_settings(self.port).encode())
            command.append(str(self.folder / "redis.conf"))
        if self.host != "127.0.0.1":
            # Its own protection lets nobody in from elsewhere where there is no password, whatever it listens at.
            command += ["--protected-mode", "no"]
        command += ["--bind", self.host, "--dir", str(self.folder), "--save", ""]
        command += ["--appendonly", "no", "--maxmemory", self.memory, "--maxmemory-policy", self.policy]
        if self.password:
            write_private(self.folder / "password.conf", f"requirepass {self.password}\n".encode())
            command.insert(1, str(self.folder / "password.conf"))
        return processes.start(command, self.folder, self.answers)

    @property
    def admin(self) -> dict[str, str]:
        if self.security is not None:
            return self.security.redis_client(admin=True)
        return {"password": self.password} if self.password else {}

    def answers(self) -> bool:
        try:
            return bool(redis.Redis.from_url(self.url, socket_timeout=1, **self.admin).ping())
        except redis.RedisError:
            return False
