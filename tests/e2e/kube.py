"""kubectl, as a person has it: what the tests on a cluster do goes through it, and what went wrong is told by it."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 120.0


@dataclass(frozen=True)
class Kube:
    """`namespace`: in which everything is that is not said to be elsewhere. `programs`: where kubectl and helm are."""

    kubeconfig: Path
    programs: Path
    namespace: str = "default"

    def within(self, namespace: str) -> Kube:
        return Kube(self.kubeconfig, self.programs, namespace)

    @contextmanager
    def in_its_own(self) -> Iterator[Kube]:
        """In a namespace that is there as long as this is, and takes no pod that may do more than it need."""
        here = self.within(f"test-{uuid.uuid4().hex[:8]}")
        self.said("create", "namespace", here.namespace)
        self.said("label", "namespace", here.namespace, "pod-security.kubernetes.io/enforce=restricted")
        try:
            yield here
        finally:
            self.said("delete", "namespace", here.namespace, "--timeout=90s")

    def tried(
        self, *words: str, given: str = "", limit_s: float = LIMIT_S, program: str = "kubectl"
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(program, words),
            input=given,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )

    def started(self, *words: str) -> subprocess.Popen[bytes]:
        """One that runs until somebody ends it."""
        silent = subprocess.DEVNULL
        command = self._command("kubectl", words)
        return subprocess.Popen(command, env=self._environment(), stdin=silent, stdout=silent, stderr=silent)

    def _command(self, program: str, words: tuple[str, ...]) -> list[str]:
        # In front: what stands behind `--` is not for kubectl.
        return [str(self.programs / program), "--namespace", self.namespace, *words]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}

    def said(self, *words: str, given: str = "", limit_s: float = LIMIT_S) -> str:
        done = self.tried(*words, given=given, limit_s=limit_s)
        assert done.returncode == 0, f"kubectl {' '.join(words)}\n{done.stderr}\n{self.story()}"
        return done.stdout

    def object(self, *words: str) -> dict[str, Any]:
        found = json.loads(self.said("get", *words, "--output=json"))
        assert isinstance(found, dict)
        return found

    def objects(self, *words: str) -> list[dict[str, Any]]:
        return list(self.object(*words)["items"])

    def apply(self, manifest: str) -> None:
        self.said("apply", "--filename", "-", given=manifest)

    def wait(self, what: str, condition: str, limit_s: float) -> None:
        self.said("wait", what, f"--for={condition}", f"--timeout={limit_s:.0f}s", limit_s=limit_s + 10)

    def condition(self, query: str, kind: str) -> tuple[str, str, str]:
        """Of a JoinQuery: status, reason, message. Empty: it says nothing of it yet."""
        for one in self.object(f"joinquery/{query}").get("status", {}).get("conditions", ()):
            if one["type"] == kind:
                return one["status"], one["reason"], one["message"]
        return "", "", ""

    def story(self) -> str:
        """For a failure: what is there, what happened, what the pods say."""
        parts = [
            self.tried("get", "joinqueries,joinsubgroups,pods", "--output=wide").stdout,
            self.tried("get", "events", "--sort-by=.lastTimestamp").stdout[-4000:],
        ]
        for pod in self.tried("get", "pods", "--output=name").stdout.split():
            parts.append(f"--- {pod}\n{self.tried('logs', pod, '--all-containers', '--tail=30').stdout}")
        return "\n".join(parts)
