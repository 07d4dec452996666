"""Measures what needs a real GPU: memory limits, overhead, sharing, UUIDs, memory left behind. From a fresh clone:

    python3 bench/gpu.py [--rounds 20] [--json FILE] [--docs PAGE]

Needs Python 3.11 or later with torch and one NVIDIA GPU; no cluster, no Ray, no installation. Prints a table, writes
JSON and the table of docs/benchmarks.md, and ends with 1 when something does not hold; prints why and ends with 0, and
writes nothing, where there is no GPU that this Python's torch can use.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "operator"), str(ROOT / "worker")]  # nothing is installed
    from bench.parts.gpu_measurements import main

    sys.exit(main())
