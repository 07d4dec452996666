"""Ray's worker process of a job's node, which becomes the pod's actor: Ray's own program, after `import_less`.

Run by path, by the raylet, in the place of Ray's `default_worker.py`. `leanray` puts it there.
"""

import importlib.util
import runpy
from pathlib import Path

from cotenant_worker.ray_cluster.lazy_imports import import_less

NAME = "default_worker.py"


def program() -> str:
    """Ray's own, found without importing Ray."""
    spec = importlib.util.find_spec("ray")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "_private" / "workers" / NAME)


if __name__ == "__main__":
    import_less()
    runpy.run_path(program(), run_name="__main__")
