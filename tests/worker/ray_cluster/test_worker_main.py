"""Ray's worker process, which becomes the pod's actor."""

import subprocess
import sys
from pathlib import Path

from cotenant_worker.ray_cluster import worker_main

FINDS = """
import sys
from cotenant_worker.ray_cluster.worker_main import ray_worker_path
path = ray_worker_path()
print(path, "ray" in sys.modules)
"""


def test_rays_own_program_is_found_without_an_import_of_ray() -> None:
    done = subprocess.run([sys.executable, "-c", FINDS], capture_output=True, text=True, check=True)
    path, imported = done.stdout.split()
    assert (path, imported) == (worker_main.ray_worker_path(), "False")
    assert Path(path).is_file()
