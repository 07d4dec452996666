"""The Dockerfile, built by buildah on a base made here: what is in each image, who it runs as, that it starts.

Needs root, buildah and debootstrap (`apt-get install buildah debootstrap`). The base and the layers stay in the cache.
The worker image brings gigabytes of torch, so it is built only when COTENANT_TEST_WORKER_IMAGE=1 is set.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.containers, pytest.mark.timeout(1800)]

CHECKOUT = Path(__file__).parents[3]
BASE = "localhost/cotenant-base"
SUITE = "bookworm"
MACHINE_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
"""What this machine needs to reach a package index; lent to the build, not part of the image."""
LIST = (
    "import importlib.metadata as m, json; "
    "print(json.dumps(sorted({d.metadata['Name'].lower().replace('_', '-') for d in m.distributions()})))"
)


class Buildah:
    """buildah with a storage of its own, so that nobody else's images are touched."""

    def __init__(self, storage: Path) -> None:
        self._options = ["--root", str(storage / "root"), "--runroot", str(storage / "run")]
        overlay = ["--storage-driver", "overlay"]
        works = subprocess.run(
            ["buildah", *self._options, *overlay, "images"], capture_output=True, check=False
        ).returncode
        self._options += overlay if works == 0 else ["--storage-driver", "vfs"]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            ["buildah", *self._options, *arguments], capture_output=True, text=True, check=False, cwd=CHECKOUT
        )
        assert done.returncode == 0, f"buildah {' '.join(arguments)}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    def leave_no_mount(self) -> None:
        """A build that failed leaves working containers, mounted; and the storage stays bound to its own place."""
        self("rm", "--all")
        subprocess.run(["umount", self._options[1] + "/overlay"], capture_output=True, check=False)

    def has(self, image: str) -> bool:
        done = subprocess.run(["buildah", *self._options, "inspect", image], capture_output=True, check=False)
        return done.returncode == 0


@pytest.fixture(scope="module")
def buildah() -> Iterator[Buildah]:
    from cotenant_local.host import folders

    if os.geteuid() != 0:
        pytest.skip("images are built as root")
    for program in ("buildah", "debootstrap"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing: apt-get install {program}")
    storage = folders.cache() / "images"
    buildah = Buildah(storage)
    if not buildah.has(BASE):
        make_base(buildah, storage)
    yield buildah
    buildah.leave_no_mount()


def make_base(buildah: Buildah, storage: Path) -> None:
    """Debian with Python, as there may be no registry to take python:3.12-slim from."""
    unfinished = storage / f"unfinished-{os.getpid()}"
    # debootstrap leaves /proc mounted in what it made; in a mount namespace of its own that ends with it.
    own = ["unshare", "--mount", "--propagation=private"]
    made = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", SUITE]
    try:
        subprocess.run([*own, *made, str(unfinished)], check=True, capture_output=True)
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(unfinished), "/")
        buildah("commit", "--quiet", "--rm", container, BASE)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@pytest.fixture(scope="module")
def image(buildah: Buildah) -> Callable[[str], str]:
    """`image(target)` → its name, built once."""
    built: set[str] = set()

    def build(target: str) -> str:
        name = f"localhost/cotenant-test-{target}"
        if target not in built:
            lent = [f"--volume={path}:{path}:ro" for path in MACHINE_FILES if Path(path).exists()]
            arguments = ["--isolation=chroot", "--layers", "--pull=never", f"--build-arg=BASE={BASE}"]
            buildah("build", *arguments, *lent, f"--target={target}", f"--tag={name}", ".")
            built.add(target)
        return name

    return build


@pytest.fixture
def run(buildah: Buildah, image: Callable[[str], str]) -> Iterator[Callable[..., str]]:
    """`run(target, program, …)` → what it printed inside the image."""
    containers: list[str] = []

    def inside(target: str, *command: str) -> str:
        containers.append(buildah("from", "--pull=never", image(target)))
        return buildah("run", "--isolation=chroot", containers[-1], "--", *command)

    yield inside
    for container in containers:
        buildah("rm", container)


def targets() -> list[Any]:
    asked = os.environ.get("COTENANT_TEST_WORKER_IMAGE") == "1"
    skip = pytest.mark.skipif(not asked, reason="gigabytes of torch; set COTENANT_TEST_WORKER_IMAGE=1")
    return ["operator", "agent", pytest.param("worker", marks=skip)]


OTHERS = {
    "operator": {"ray", "torch", "nvidia-ml-py", "grpcio", "pytest", "pip"},
    "agent": {"ray", "torch", "kopf", "orjson", "grpcio-tools", "pytest", "pip"},
    "worker": {"kopf", "kubernetes", "pytest", "pip"},
}
OWN = {
    "operator": {"cotenant", "kopf", "kubernetes", "aiohttp", "orjson", "prometheus-client"},
    "agent": {"cotenant", "nvidia-ml-py", "kubernetes", "prometheus-client", "grpcio"},
    "worker": {"cotenant", "ray", "torch", "scikit-learn", "fsspec", "obstore"},
}


@pytest.mark.parametrize("target", targets())
def test_an_image_has_its_own_packages_and_nobody_elses(run: Callable[..., str], target: str) -> None:
    there = set(json.loads(run(target, "python", "-c", LIST)))
    assert there >= OWN[target]
    assert there & OTHERS[target] == set()


@pytest.mark.parametrize("target", targets())
def test_an_image_runs_as_nobody_in_particular_and_says_what_it_is(
    buildah: Buildah, image: Callable[[str], str], target: str
) -> None:
    config = json.loads(buildah("inspect", "--type=image", image(target)))["OCIv1"]["config"]
    assert config["User"] == "65532:65532"
    assert config["Labels"]["org.opencontainers.image.title"] == f"cotenant-{target}"
    assert config["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    # An image that named GPUs would be given them wherever the NVIDIA runtime is the default.
    assert not [entry for entry in config["Env"] if entry.startswith(("NVIDIA_", "CUDA_", "LD_"))]


@pytest.mark.parametrize(
    ("target", "command", "says"),
    [
        ("operator", ["python", "-m", "cotenant", "operator", "--help"], "--worker-image"),
        ("agent", ["python", "-m", "cotenant_agent", "--help"], "--simulate-file"),
        ("agent", ["cotenant", "agent", "--help"], "--simulate-file"),
    ],
)
def test_the_command_that_the_chart_runs_is_there(
    run: Callable[..., str], target: str, command: list[str], says: str
) -> None:
    assert says in run(target, *command)


def test_the_process_in_the_image_is_not_root(run: Callable[..., str]) -> None:
    assert run("agent", "python", "-c", "import os; print(os.getuid(), os.getgid())") == "65532 65532"


@pytest.mark.parametrize("target", targets()[2:])
def test_the_workers_image_compiles_what_torch_generates(run: Callable[..., str], target: str) -> None:
    program = "import torch; print(torch.compile(lambda x: torch.relu(x.sin() + 1))(torch.ones(2)).shape)"
    assert "torch.Size([2])" in run(target, "python", "-c", program)
