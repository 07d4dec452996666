"""Shared by the worker's tests: pods in namespaces come from `bench/podlike.py`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "bench"))
