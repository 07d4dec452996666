"""The worker image as the file system of pods: read-only, the user of pods, process 1 as the manifest names it.

`make test-images`. It is left out elsewhere, because it brings gigabytes of torch.
"""

from __future__ import annotations

import os
import shlex
import signal
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cotenant.contract import CheckpointSpec
from cotenant.controller.manifests.base_pod import _LAUNCHER_CONTAINER as CONTAINER
from tests.live.images.conftest import Buildah
from tests.live.programs.table import OPTIONS, SOURCES
from tests.support import pod_sandbox
from tests.support.pod import Pod
from tests.support.pod_sandbox import PodSandbox, contract, until

START_S = 300
"""Patience for a start on a busy machine."""
SAVED_IN = "/checkpoints"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")

pytestmark = [
    pytest.mark.containers,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        os.environ.get("COTENANT_TEST_WORKER_IMAGE") != "1",
        reason="gigabytes of torch; set COTENANT_TEST_WORKER_IMAGE=1",
    ),
    pytest.mark.skipif(bool(pod_sandbox.missing()), reason=pod_sandbox.missing() or "can run"),
]


@dataclass(frozen=True, slots=True)
class Unpacked:
    """The image's file system on this machine, and what its configuration gives to every process."""

    root: Path
    environment: dict[str, str]
    user: str

    def process_1(self, code: Path, checkpoints: Path) -> str:
        """Shell: become process 1 of a pod of this image, with `code` and `checkpoints` mounted."""
        command = shlex.join(CONTAINER["command"])
        lines = [
            f"R={self.root}",
            "mount --bind $R $R",
            "mount -t proc proc $R/proc",
            "mount -t tmpfs -o mode=1777 tmpfs $R/tmp",
            "mount -t tmpfs -o mode=755 tmpfs $R/dev && mkdir $R/dev/shm && ln -s /proc/self/fd $R/dev/fd",
            "mount -t tmpfs -o mode=1777 tmpfs $R/dev/shm",
            *(f"touch $R/dev/{name} && mount --bind /dev/{name} $R/dev/{name}" for name in DEVICES),
            "chmod 666 $COTENANT_TERMINATION_LOG && touch $R/dev/termination-log",
            "mount --bind $COTENANT_TERMINATION_LOG $R/dev/termination-log",
            f"mkdir -p $R{SAVED_IN} $R/workspace && touch $R/etc/hosts && mount --bind /etc/hosts $R/etc/hosts",
            f"mount --bind {checkpoints} $R{SAVED_IN} && chown {self.user} $R{SAVED_IN}",
            f"mount --bind {code} $R/workspace && mount -o remount,bind,ro $R/workspace",
            "mount -o remount,bind,ro $R",
            "unset COTENANT_TERMINATION_LOG",
            f"exec setpriv --no-new-privs chroot --userspec={self.user} --groups={self.user.split(':')[1]} $R"
            f" sh -c 'cd /workspace && exec {command}'",
        ]
        return " && ".join(lines)


@pytest.fixture(scope="module")
def unpacked(buildah: Buildah, image: Callable[[str], str]) -> Iterator[Unpacked]:
    config: dict[str, Any] = buildah.inspect(image("worker"))["config"]
    container = buildah("from", "--pull=never", image("worker"))
    root = Path(buildah("mount", container))
    yield Unpacked(root, dict(entry.split("=", 1) for entry in config["Env"]), config["User"])
    buildah("umount", container)
    buildah("rm", container)


@dataclass(frozen=True, slots=True)
class Pods:
    unpacked: Unpacked
    checkpoints: Path

    def run(
        self, code: Path, *command: str, ranks: tuple[int, ...] = (1,), leave_at: str = ""
    ) -> tuple[list[int], str]:
        """Exit code of each pod, and the logs. The pods are asked to leave once the first has printed `leave_at`."""
        where = {"codePath": "/workspace"}  # where the manifest mounts it
        job = contract(ranks, command=command, checkpoint=CheckpointSpec(SAVED_IN), grace_s=30, platform=where)
        shell = self.unpacked.process_1(code, self.checkpoints)
        with PodSandbox(job, code, env=self.unpacked.environment) as world:
            pods = [world.start(index, shell=shell) for index in range(len(ranks))]
            if leave_at:
                leave(pods, leave_at)
            return [pod.wait(START_S) for pod in pods], world.logs()


def leave(pods: list[Pod], said: str) -> None:
    until(lambda: said in pods[0].log() or pods[0].process.poll() is not None, START_S, f"the line {said!r}")
    for pod in pods:
        pod.signal(signal.SIGTERM)


@pytest.fixture
def pods(unpacked: Unpacked) -> Iterator[Pods]:
    with pod_sandbox.directory() as shared:
        yield Pods(unpacked, shared)


@pytest.fixture
def code() -> Iterator[Path]:
    """A folder that pods see: their /tmp is their own."""
    with pod_sandbox.directory() as shared:
        shared.chmod(0o755)
        yield shared


def options(**chosen: Any) -> list[str]:
    values = {"steps": 5, "out": SAVED_IN, "bad_batch": -1, **chosen}
    return [part.format(**values) for part in OPTIONS]


def test_two_pods_train_are_preempted_and_go_on_from_their_checkpoint(pods: Pods) -> None:
    launch = ("torchrun", "--nproc-per-node=1", "distributed.py")
    codes, logs = pods.run(SOURCES / "launchers", *launch, *options(steps=100_000), ranks=(1, 1), leave_at="step 5\n")
    assert codes == [143, 143], logs
    codes, logs = pods.run(SOURCES / "launchers", *launch, *options(steps=100_000, bad_batch=60), ranks=(1, 1))
    assert codes == [1, 1], logs
    assert "ValueError: bad batch 60" in logs
    assert "starts at 0 " not in logs
    assert (pods.checkpoints / "snapshot.pt").is_file()


def test_torch_compile_works_and_says_the_programs_own_error(pods: Pods) -> None:
    assert pods.run(SOURCES / "frameworks", "python", "compiled.py", *options())[0] == [0]
    codes, logs = pods.run(SOURCES / "frameworks", "python", "compiled.py", *options(steps=9, bad_batch=7))
    assert (codes, "ValueError: bad batch 7 (compiled.py:" in logs) == ([1], True), logs


def test_the_root_is_read_only_the_user_has_a_name_and_process_1_is_ours(code: Path, pods: Pods) -> None:
    script = """
        import getpass, os, pathlib, sys
        print("user", os.getuid(), getpass.getuser(), pathlib.Path.home())
        print("first", pathlib.Path("/proc/1/cmdline").read_text().split("\\0")[:4])
        for place in (pathlib.Path(sys.prefix), pathlib.Path.home(), pathlib.Path("/dev/shm"), pathlib.Path()):
            try:
                (place / "note").write_text("here")
                print("wrote", place)
            except OSError as error:
                print("cannot write", place, error.strerror)
    """
    lines = [line.removeprefix("        ") for line in script.splitlines()]
    (code / "look.py").write_text("\n".join(lines))
    codes, logs = pods.run(code, "python", "look.py")
    assert codes == [0], logs
    for said in (
        "user 65532 cotenant /tmp",
        "first ['cotenant', '-P', '-m', 'cotenant_worker']",
        "cannot write /opt/cotenant Read-only file system",
        "wrote /tmp",
        "wrote /dev/shm",
        "wrote .",
    ):
        assert f"{said}\n" in logs, logs


def test_what_a_job_installs_by_pip_is_there_for_its_program(code: Path, pods: Pods) -> None:
    wheel = "greeting-1-py3-none-any.whl"
    with zipfile.ZipFile(code / wheel, "w") as archive:
        archive.writestr(
            "greeting.py", "def greet():\n    import torch\n    print('hello with', torch.ones(2).sum())\n"
        )
        about = "greeting-1.dist-info"
        archive.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: greeting\nVersion: 1\nRequires-Dist: torch\n"
        )
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\ngreet = greeting:greet\n")
        archive.writestr(f"{about}/RECORD", "")
    (code / "train.py").write_text("import greeting\ngreeting.greet()\n")
    codes, logs = pods.run(code, "bash", "-c", f"pip install --no-index ./{wheel} && greet && python train.py")
    assert codes == [0], logs
    assert logs.count("hello with tensor(2.)") == 2, logs


def test_a_virtual_environment_of_the_jobs_own_is_used_as_typed(code: Path, pods: Pods) -> None:
    (code / "train.py").write_text("import sys\nprint('runs in', sys.prefix)\n")
    make = "python3 -m venv --without-pip /tmp/own && /tmp/own/bin/python train.py"
    codes, logs = pods.run(code, "bash", "-c", make)
    assert (codes, "runs in /tmp/own\n" in logs) == ([0], True), logs
