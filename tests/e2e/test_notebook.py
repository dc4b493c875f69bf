"""The notebook in `examples`, cell by cell, against a real cluster."""

import json
import subprocess
import sys
from pathlib import Path

from tests.support.clusters.local import Cluster

NOTEBOOK = Path(__file__).parents[2] / "examples" / "python-client.ipynb"


def test_the_notebook_runs(used_cluster: Cluster) -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    program = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=used_cluster.env,
        cwd=used_cluster.project.path,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert "[worker 1] process 1 of 2" in done.stdout
    assert "Search succeeded" in done.stdout
