"""The table of a run on a GPU: on the page between its marks, whatever the rows say; and the script starts bare."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GPU_TABLE = runpy.run_path(str(ROOT / "bench/parts/gpu_table.py"))
BEGIN, END, written, table = (GPU_TABLE[name] for name in ("BEGIN", "END", "written", "table"))
H100 = GPU_TABLE["Machine"]("NVIDIA H100 80GB HBM3", "2.15.0", "13.0", "615.71.09")
ROWS = {
    "torch stops at its share, context included": {
        "verdict": "holds",
        "text": "it holds 31.8 of 32.0 GiB",
        "process": 1,
    },
    "solo overhead": {"verdict": "FAILS", "text": "+0.71 % of a step | goal at most 0.5 %"},
    "two training jobs of 0.4 together": {"verdict": "measured", "text": "child ended:\n  <class 'OSError'>"},
}
"""Figures that nobody measured."""
TABLE = """\
NVIDIA H100 80GB HBM3, driver 615.71.09, torch 2.15.0 (CUDA 13.0), 2026-11-23:

| on one GPU | | measured |
|---|---|---|
| torch stops at its share, context included | holds | it holds 31.8 of 32.0 GiB |
| solo overhead | FAILS | +0.71 % of a step \\| goal at most 0.5 % |
| two training jobs of 0.4 together | measured | child ended: &lt;class 'OSError'> |
"""


def test_every_row_is_a_line_of_the_table() -> None:
    assert table(H100, "2026-11-23", ROWS) == TABLE


def test_a_run_replaces_the_table_of_the_one_before_and_nothing_else() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text()
    first = written(page, GPU_TABLE["Machine"]("RTX", "2", "12", ""), "2026-01-01", ROWS)
    assert written(first, H100, "2026-11-23", ROWS) == (
        f"{page.partition(BEGIN)[0]}{BEGIN}\n{TABLE}{END}{page.partition(END)[2]}"
    )
    with pytest.raises(ValueError, match="the page has no place for the table"):
        written("no marks", H100, "2026-11-23", ROWS)


def test_without_a_gpu_it_says_so_from_anywhere_with_nothing_installed_and_writes_nothing(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(BEGIN + END)
    command = [sys.executable, "-S", str(ROOT / "bench/gpu.py"), f"--json={tmp_path}/gpu.json", f"--docs={page}"]
    hidden = {"CUDA_VISIBLE_DEVICES": "", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=tmp_path, env=hidden, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("bench/gpu.py did not run: ")
    assert (page.read_text(), list(tmp_path.iterdir())) == (BEGIN + END, [page])
