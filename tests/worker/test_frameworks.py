"""The examples of other frameworks, taken from their YAML and run in two pods with the framework's own packages.

`make test-frameworks`: each framework goes into a directory of its own under the user's cache, on first use.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import podlike
import pytest
import yaml
from podlike import World, contract

EXAMPLES = Path(__file__).parents[2] / "examples" / "frameworks"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cotenant" / "frameworks"
PACKAGES = {
    "jax": ["jax"],
    "accelerate": ["--no-deps", "accelerate", "huggingface_hub", "safetensors", "psutil", "tqdm"],
    "tensorflow": ["tensorflow-cpu"],
    "keras": ["--no-deps", "keras", "absl-py", "namex", "h5py", "optree", "ml-dtypes"],
    "raytrain": ["--no-deps", "pyarrow", "pandas", "tensorboardX", "pytz"],
}

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(podlike.missing()), reason=podlike.missing() or "can run"),
]


def installed(name: str) -> str:
    """A directory with the framework; made once."""
    target = CACHE / name
    if name and not target.is_dir():
        aside = target.with_suffix(f".{os.getpid()}")
        subprocess.run(
            [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", str(aside), *PACKAGES[name]], check=True
        )
        aside.rename(target)
    return str(target) if name else ""


@pytest.mark.parametrize(
    ("example", "framework"),
    [
        ("jax-digits", "jax"),
        ("accelerate-digits", "accelerate"),
        ("tensorflow-digits", "tensorflow"),
        ("keras-digits", "keras"),
        ("fsdp-digits", ""),
        ("ray-train-digits", "raytrain"),
    ],
)
def test_the_example_trains_in_two_pods(example: str, framework: str) -> None:
    config, job = yaml.safe_load_all((EXAMPLES / f"{example}.yaml").read_text())
    runtime = job["spec"]["runtime"]
    mode = "rayTrain" if runtime.get("rayTrain") else "command"
    document = contract([1, 1], command=tuple(runtime["command"]), mode=mode, framework=runtime.get("framework", ""))
    extra = installed(framework)
    with podlike.directory() as code:
        (code / "train.py").write_text(config["data"]["train.py"])
        with World(document, code, env={"PYTHONPATH": extra} if extra else {}) as world:
            pods = world.start_all()
            codes = [pod.wait(600) for pod in pods]
            results = pods[0].termination().results
            logs = world.logs()
    assert codes == [0, 0], logs
    assert float(results["test_accuracy"]) >= 0.9, logs
