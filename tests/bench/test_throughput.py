"""bench/throughput.py runs every scenario and writes what it prints; no time is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_scenario_runs_on_a_small_cluster(tmp_path: Path) -> None:
    written = tmp_path / "rows.json"
    command = [sys.executable, str(ROOT / "bench/throughput.py"), "--scale", "0.01", "--json", str(written)]

    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, cwd=ROOT).stdout

    rows = {row["scenario"]: row for row in json.loads(written.read_text())["rows"]}
    assert len(rows) == 15
    assert all(name in printed for name in rows)
    assert rows["an impossible gang of 80, 1,000 nodes"]["note"] == "ExceedsCluster"
    assert rows["reclaim half of 1,000 full nodes, cycle"]["note"] == "40 leave"
