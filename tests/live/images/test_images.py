"""The Dockerfile, built: what is in each image, in which layers, who it runs as, that it starts.

The worker image brings gigabytes of torch, so it is built only where COTENANT_TEST_WORKER_IMAGE=1 is set, as
`make test-images` does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.live.images.conftest import Buildah

pytestmark = [pytest.mark.containers, pytest.mark.timeout(3600)]

LIST = (
    "import importlib.metadata as m, json; "
    "print(json.dumps(sorted({d.metadata['Name'].lower().replace('_', '-') for d in m.distributions()})))"
)


def targets() -> list[Any]:
    asked = os.environ.get("COTENANT_TEST_WORKER_IMAGE") == "1"
    skip = pytest.mark.skipif(not asked, reason="gigabytes of torch; set COTENANT_TEST_WORKER_IMAGE=1")
    return ["operator", "agent", pytest.param("worker", marks=skip)]


OTHERS = {
    "operator": {"ray", "torch", "nvidia-ml-py", "grpcio", "pytest", "pip"},
    "agent": {"ray", "torch", "kopf", "orjson", "grpcio-tools", "pytest", "pip"},
    "worker": {"kopf", "kubernetes", "pytest", "hatchling"},
}
OWN = {
    "operator": {"cotenant", "kopf", "kubernetes", "aiohttp", "orjson", "prometheus-client"},
    "agent": {"cotenant", "nvidia-ml-py", "kubernetes", "prometheus-client", "grpcio"},
    "worker": {"cotenant", "ray", "torch", "scikit-learn", "fsspec", "obstore", "pip"},
}
MOST_OF_OUR_OWN_BYTES = 16 << 20


@pytest.mark.parametrize("target", targets())
def test_an_image_has_its_own_packages_and_nobody_elses(run: Callable[..., str], target: str) -> None:
    there = set(json.loads(run(target, "python", "-c", LIST)))
    assert there >= OWN[target]
    assert there & OTHERS[target] == set()


@pytest.mark.parametrize("target", targets())
def test_our_own_code_is_a_small_layer_above_the_packages(
    buildah: Buildah, image: Callable[[str], str], target: str
) -> None:
    *packages, code = (size for size in buildah.layer_sizes(image(target)) if size > 64 << 10)
    assert code < MOST_OF_OUR_OWN_BYTES < max(packages[1:])


@pytest.mark.parametrize("target", targets())
def test_an_image_runs_as_nobody_in_particular_and_says_what_it_is(
    buildah: Buildah, image: Callable[[str], str], target: str
) -> None:
    config = buildah.inspect(image(target))["config"]
    assert config["User"] == "65532:65532"
    assert config["Labels"]["org.opencontainers.image.title"] == f"cotenant-{target}"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    # An image that named GPUs would be given them wherever the NVIDIA runtime is the default.
    assert not [entry for entry in config["Env"] if entry.startswith(("NVIDIA_", "CUDA_", "LD_"))]


@pytest.mark.parametrize("target", targets())
def test_an_image_brings_the_bytecode_of_what_it_imports(run: Callable[..., str], target: str) -> None:
    """Nobody may write it later: each pod would compile anew what it imports."""
    imports = {"operator": "kopf, cotenant.cli.main", "agent": "cotenant_agent.main", "worker": "torch, ray, sklearn"}
    shown = f"python -v -c 'import {imports[target]}' 2>&1 >/dev/null"
    compiled = run(target, "sh", "-c", f"{shown} | grep -E \"code object from '/opt/.*[.]py'\" || true")
    assert compiled == ""


@pytest.mark.parametrize(
    ("target", "command", "says"),
    [
        ("operator", ["python", "-m", "cotenant", "operator", "--help"], "--worker-image"),
        ("agent", ["python", "-m", "cotenant_agent", "--help"], "--runtime-class"),
        ("agent", ["cotenant", "agent", "--help"], "--runtime-class"),
    ],
)
def test_the_command_that_the_chart_runs_is_there(
    run: Callable[..., str], target: str, command: list[str], says: str
) -> None:
    assert says in run(target, *command)


def test_the_process_in_the_image_is_not_root(run: Callable[..., str]) -> None:
    assert run("agent", "python", "-c", "import os; print(os.getuid(), os.getgid())") == "65532 65532"
    assert run("agent", "whoami") == "cotenant"
