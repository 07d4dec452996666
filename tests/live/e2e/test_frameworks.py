"""The examples of the frameworks, applied as they are: two workers in two pods on two nodes train on real data.

`make test-frameworks`. Each framework is installed into a folder of the user's cache on first use; the cluster shows
that folder in an image of its own, which is all that the test adds to an example.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.e2e.tenancy import CHECKOUT, Document, Tenancy, product

EXAMPLES = CHECKOUT / "examples" / "frameworks"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "cotenant" / "frameworks"
PACKAGES = {
    "jax": ["jax"],
    "accelerate": ["--no-deps", "accelerate", "huggingface_hub", "safetensors", "psutil", "tqdm"],
    "tensorflow": ["tensorflow-cpu"],
    "keras": ["--no-deps", "keras", "absl-py", "namex", "h5py", "optree", "ml-dtypes"],
    "raytrain": ["--no-deps", "pyarrow", "pandas", "tensorboardX", "pytz"],
    # Horovod's last release and the newest torch that it was released for; the rest is what it is built with.
    "horovod": ["torch==1.13.1", "numpy<2", "setuptools<70", "wheel", "cmake<4", "cloudpickle", "psutil", "pyyaml"],
}
"""What comes on top of the worker's own environment, which has torch and Ray."""
COMPILED = {"horovod": ["--no-deps", "--no-build-isolation", "horovod==0.28.1"]}
"""What is built against those packages, which takes minutes: a C++ compiler has to be there."""
HOROVOD = {
    **{f"HOROVOD_WITH_{part}": "1" for part in ("PYTORCH", "GLOO")},
    **{f"HOROVOD_WITHOUT_{part}": "1" for part in ("TENSORFLOW", "MXNET", "MPI")},
    "HOROVOD_CPU_OPERATIONS": "GLOO",
    "MAKEFLAGS": f"-j{os.cpu_count()}",
}
IMAGES = {**{name: [name] for name in PACKAGES}, "keras-jax": ["keras", "jax"]}

pytestmark = [pytest.mark.frameworks, pytest.mark.timeout(2400)]


def installed(framework: str) -> Path:
    """A folder with the framework; made once."""
    target = CACHE / framework
    if not target.is_dir():
        aside = target.with_suffix(f".{os.getpid()}")
        install = [sys.executable, "-m", "uv", "pip", "install", "-q", "--target", str(aside)]
        subprocess.run([*install, *PACKAGES[framework]], check=True)
        if framework in COMPILED:
            path = f"{aside / 'bin'}:{os.environ['PATH']}"
            env = {**os.environ, **HOROVOD, "PATH": path, "PYTHONPATH": str(aside)}
            subprocess.run([*install, *COMPILED[framework]], env=env, check=True)
        aside.rename(target)
    return target


def image(framework: str) -> str:
    return f"example.com/worker-{framework}"


def cluster_of(name: str, node: Document) -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    folders = {brings: [str(installed(part)) for part in parts] for brings, parts in IMAGES.items()}
    images = {image(one): {"paths": at, "env": {"PYTHONPATH": ":".join(at)}} for one, at in folders.items()}
    with product(name, spec.parse({"nodes": [node], "images": images}, "this test")) as tenancy:
        yield tenancy


@pytest.fixture(scope="module")
def cluster() -> Iterator[Tenancy]:
    yield from cluster_of("frameworks", {"name": "node", "count": 2, "gpus": {"count": 1, "class": "H100"}})


@pytest.fixture(scope="module")
def demo_cluster() -> Iterator[Tenancy]:
    """What `make demo KEEP=1` leaves on a machine of two cores."""
    yield from cluster_of("frameworks-demo", {"name": "node-1", "cpu": 2, "gpus": {"count": 2, "class": "H100"}})


def example(name: str, framework: str) -> list[Document]:
    """The documents of the file; the job gets the image that brings its framework, as the file's comment asks."""
    config, job = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    if framework:
        job["spec"]["runtime"]["image"] = image(framework)
    return [config, job]


def said_by(tenancy: Tenancy, name: str) -> str:
    """The job's status and the last of what its pods printed."""
    status: dict[str, Any] = tenancy.job(name).get("status", {})
    logs = tenancy.cluster.kubectl("logs", "-n", "team-a", "-l", f"cotenant.dev/job={name}", "--tail=40", "--prefix")
    return f"{yaml.safe_dump(status)}\n{logs}"


EXAMPLE_FRAMEWORKS = [
    ("fsdp-digits", ""),
    ("accelerate-digits", "accelerate"),
    ("jax-digits", "jax"),
    ("keras-digits", "keras"),
    ("keras-jax-digits", "keras-jax"),
    ("tensorflow-digits", "tensorflow"),
    ("ray-train-digits", "raytrain"),
    ("horovod-digits", "horovod"),
]


@pytest.mark.parametrize(("name", "framework"), EXAMPLE_FRAMEWORKS)
def test_the_example_trains_as_a_job_on_two_nodes(cluster: Tenancy, name: str, framework: str) -> None:
    trains(cluster, name, framework, on=["node-1", "node-2"])


@pytest.mark.parametrize(("name", "framework"), EXAMPLE_FRAMEWORKS)
def test_the_example_trains_on_the_two_cores_of_the_demos_cluster(
    demo_cluster: Tenancy, name: str, framework: str
) -> None:
    trains(demo_cluster, name, framework, on=["node-1"])


def trains(cluster: Tenancy, name: str, framework: str, *, on: list[str]) -> None:
    cluster.apply(*example(name, framework))
    running = cluster.wait_phase(name, "Running", "Failed")["status"]
    assert running["phase"] == "Running", said_by(cluster, name)
    assert [node["node"] for node in running["placement"]["nodes"]] == on
    status = cluster.wait_phase(name, "Succeeded", "Failed", seconds=600)["status"]
    assert status["phase"] == "Succeeded", said_by(cluster, name)
    assert float(status["results"]["test_accuracy"]) >= 0.9, said_by(cluster, name)
    assert status["results"].get("ranks_agree", "yes") == "yes", said_by(cluster, name)
    cluster.delete_all()
