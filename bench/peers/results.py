"""The page of results: medians with their spread, and facts of the machine."""

import os
import platform
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from bench.peers.peer import Figure

PIT, SLURM = "pit", "Slurm"


def render(figures: Iterable[Figure], rounds: int) -> str:
    lines = [
        "# pit and Slurm on one machine",
        "",
        "Made by `make bench-peers`: both do the same work in turns, in the same run. A figure is the median"
        f" with the smallest and the largest value; rounds: {rounds}. Above 1 × pit is better.",
        "",
        *(f"- {name}: {value}" for name, value in machine_facts().items()),
        "",
        "| what | pit | Slurm | ratio |",
        "|---|---|---|---|",
    ]
    for figure in figures:
        cells = [figure.what, _cell(figure, PIT), _cell(figure, SLURM), f"{figure.ratio(PIT, SLURM):.2f} ×"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def machine_facts() -> dict[str, str]:
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "processor": f"{os.cpu_count()} × {cpu[0].partition(':')[2].strip() if cpu else platform.machine()}",
        "memory": f"{memory_kib / 1024 / 1024:.0f} GiB",
        "load before and during the run (1, 5, 15 minutes)": " ".join(
            f"{load:.1f}" for load in os.getloadavg()
        ),
        "Linux": platform.release(),
        "Python": platform.python_version(),
        "Slurm": _first_line("dpkg-query", "--show", "--showformat=${Version}", "slurm-wlm"),
        "commit": _first_line("git", "rev-parse", "--short", "HEAD"),
    }


def _cell(figure: Figure, peer: str) -> str:
    values = figure.values[peer]
    unit = "/s" if figure.unit == "/s" else " ms"
    spread = f" ({min(values):.0f}..{max(values):.0f})" if len(values) > 1 else ""
    return f"{figure.median(peer):.0f}{unit}{spread}"


def _first_line(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return done.stdout.strip().partition("\n")[0] or "unknown"
