"""The generated messages of CRI v1. They are compiled at build time from the pinned Kubernetes, never committed.

The process that serves or tests the runtime puts the folder of the stubs on `sys.path` first (`load`).
"""

import importlib
import sys
from pathlib import Path
from typing import Any

pb: Any = None
rpc: Any = None


def load(folder: Path) -> None:
    """Makes `pb` (messages) and `rpc` (servicers and stubs) usable; call before importing the service."""
    global pb, rpc
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    pb, rpc = map(importlib.import_module, ("cotenant_cri.api_pb2", "cotenant_cri.api_pb2_grpc"))
