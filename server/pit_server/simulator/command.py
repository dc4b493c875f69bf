"""What `pit-head simulate` does."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pit_protocol.problem import Problem
from pit_server.settings import PREFIX, Settings, load
from pit_server.simulator import trace_files
from pit_server.simulator.policies import choose
from pit_server.simulator.results import render, summarize
from pit_server.simulator.simulation import simulate
from pit_server.simulator.trace import prepare

USED = ("reservations", "placement", "half_life_days", "share_weights")  # settings that change something here


def run(
    file: Path, *, policies: Sequence[str], changes: Sequence[str] = (), as_json: bool = False, **scale: Any
) -> str:
    """Simulate the trace with each policy; returns a table or JSON."""
    settings = _changed_settings(changes)
    trace = prepare(trace_files.read(file), **scale)
    rows = []
    for name in policies:
        policy = choose(name, trace.nodes, settings.reservations)
        rows.append(summarize(name, trace, simulate(trace, policy, settings)))
    return json.dumps([asdict(row) for row in rows], indent=2) if as_json else render(rows)


def _changed_settings(changes: Sequence[str]) -> Settings:
    """The defaults of the head, with changes like `reservations=10`; checked as in head.toml."""
    environ = {}
    for change in changes:
        name, _, value = change.partition("=")
        if name not in USED:
            message = f"{name} is not a setting of the scheduler that a simulation uses"
            raise Problem("bad_setting", message, f"It uses {', '.join(USED)}.")
        environ[f"{PREFIX}{name.upper()}"] = value
    return load(Path("simulated"), environ)
