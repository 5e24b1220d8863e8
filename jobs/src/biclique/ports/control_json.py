"""What the control port keeps of pauses and conditions, as JSON: in a folder, in a ConfigMap, and between a driver and
its units."""

from __future__ import annotations

import json
from dataclasses import asdict

from biclique.ports.control import Condition, Pause, State


def encode_pause(pause: Pause) -> str:
    return json.dumps(asdict(pause), indent=1)


def decode_pause(text: str) -> Pause:
    """What a person has put there pauses, too, whatever it says."""
    try:
        return Pause(**json.loads(text))
    except (ValueError, TypeError):
        return Pause("by hand")


def encode_condition(condition: Condition) -> str:
    return json.dumps({"state": condition.state.value, "why": condition.why})


def decode_condition(text: str) -> Condition:
    told = json.loads(text)
    return Condition(State(told["state"]), told["why"])
