"""The Dockerfile's targets, built by buildah on a base made here. Needs root, buildah and debootstrap."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).parents[3]
SUITE = "bookworm"
PACKAGES = "python3,python3-venv,python3-dev,ca-certificates"
BASE = f"localhost/cotenant-base:{SUITE}-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:8]}"
MACHINE_FILES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pip.conf")
"""What this machine needs to reach a package index; lent to the build, not part of the image."""


class Buildah:
    """buildah with a storage of its own, so that nobody else's images are touched."""

    def __init__(self, storage: Path) -> None:
        self.root = storage / "root"
        self._options = ["--root", str(self.root), "--runroot", str(storage / "run")]
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

    def inspect(self, image: str) -> Any:
        """What the image says of itself: `config`, `rootfs`."""
        return json.loads(self("inspect", "--type=image", image))["OCIv1"]

    def layer_sizes(self, image: str) -> list[int]:
        """Bytes of each layer, the base's first."""
        layers = json.loads(next(self.root.glob("*-layers/layers.json")).read_text())
        sizes = {layer.get("diff-digest"): layer.get("diff-size", 0) for layer in layers}
        return [sizes[digest] for digest in self.inspect(image)["rootfs"]["diff_ids"]]

    def leave_no_mount(self) -> None:
        """Unmount everything: a failed build leaves mounted working containers, and the storage stays mounted too."""
        self("rm", "--all")
        subprocess.run(["umount", f"{self.root}/overlay"], capture_output=True, check=False)

    def has(self, image: str) -> bool:
        done = subprocess.run(["buildah", *self._options, "inspect", image], capture_output=True, check=False)
        return done.returncode == 0


@pytest.fixture(scope="session")
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
    made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE]
    try:
        subprocess.run([*own, *made, str(unfinished)], check=True, capture_output=True)
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(unfinished), "/")
        buildah("commit", "--quiet", "--rm", container, BASE)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@pytest.fixture(scope="session")
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
