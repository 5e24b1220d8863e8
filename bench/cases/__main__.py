"""One case in a process of its own: `python -m bench.cases NAME full|quick` prints one JSON line."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from bench.cases import CASES, Scale

name, scale = sys.argv[1:]
case = next(case for case in CASES if case.name == name)
print(json.dumps(asdict(case.run(Scale(scale)))), flush=True)
