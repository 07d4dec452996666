"""Ray's worker process of a job's node, which becomes the pod's actor: Ray's own program, after `install_lazy_imports`.

The raylet runs it by path instead of Ray's `default_worker.py`, as `lean_node` tells it to.
"""

import importlib.util
import runpy
from pathlib import Path

from cotenant_worker.ray_cluster.lazy_imports import install_lazy_imports

RAY_WORKER = "default_worker.py"


def ray_worker_path() -> str:
    """Ray's own program, found without importing Ray."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "_private" / "workers" / RAY_WORKER)


if __name__ == "__main__":
    install_lazy_imports()
    runpy.run_path(ray_worker_path(), run_name="__main__")
