"""The notebook of the examples, cell by cell, as a new user would run it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_runs(notebook: Path, tmp_path: Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells), "outputs of a run stay out of the repository"
    (tmp_path / "cells.py").write_text("\n".join("".join(cell["source"]) for cell in cells))
    done = subprocess.run(
        [sys.executable, "cells.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0].endswith("would start now for 2 processes, workers on this machine (2).")
    assert said[1].startswith("Succeeded {'loss': ")
    losses = json.loads(next(line for line in said if line.startswith("[")))
    assert losses[0] > losses[1], "each of several jobs has its own rate"
    assert said[-1] in {f"{rank} 1 ValueError: no data" for rank in (0, 1)}, "whichever came first"
