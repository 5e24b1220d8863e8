"""Plays the kubelet, and drivers: where no node runs pods, a pod is as its status says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from biclique_operator.observed import timestamp_of

Raw = dict[str, Any]


class Kubelet:
    """`write`: a pod's status, over what was seen of it."""

    def __init__(self, write: Callable[[Raw, Raw], object], now: Callable[[], float]) -> None:
        self._write, self._now = write, now

    def _condition(self, kind: str, holds: bool, reason: str = "", message: str = "") -> Raw:
        found = {"type": kind, "status": str(holds), "lastTransitionTime": timestamp_of(self._now())}
        return {**found, **({"reason": reason, "message": message} if reason else {})}

    def runs(self, pod: Raw, ready: bool = True) -> None:
        self._write(
            pod,
            {
                "phase": "Running",
                "podIP": "10.0.0.1",
                "conditions": [self._condition("PodScheduled", True), self._condition("Ready", ready)],
                "containerStatuses": [_container({"running": {"startedAt": timestamp_of(self._now())}}, ready)],
            },
        )

    def ends(self, pod: Raw, code: int, message: str = "", reason: str = "") -> None:
        end = {
            "exitCode": code,
            "message": message,
            "reason": reason or ("Completed" if code == 0 else "Error"),
            "startedAt": pod["metadata"]["creationTimestamp"],
            "finishedAt": timestamp_of(self._now()),
        }
        self._write(
            pod,
            {
                "phase": "Failed" if code else "Succeeded",
                "conditions": [self._condition("PodScheduled", True), self._condition("Ready", False)],
                "containerStatuses": [_container({"terminated": end}, False)],
            },
        )

    def waits(self, pod: Raw, reason: str, message: str = "") -> None:
        """A container that cannot be made."""
        self._write(
            pod,
            {
                "phase": "Pending",
                "conditions": [self._condition("PodScheduled", True), self._condition("Ready", False)],
                "containerStatuses": [_container({"waiting": {"reason": reason, "message": message}}, False)],
            },
        )

    def finds_no_node(self, pod: Raw, message: str) -> None:
        self._write(
            pod,
            {"phase": "Pending", "conditions": [self._condition("PodScheduled", False, "Unschedulable", message)]},
        )


def _container(state: Raw, ready: bool) -> Raw:
    return {"name": "driver", "ready": ready, "restartCount": 0, "image": "x", "imageID": "x", "state": state}
