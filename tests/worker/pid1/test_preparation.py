"""Preparation of a pod: what its board shows of the choices made for it, and the limits that its processes get."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant import names
from cotenant.contract import CheckpointSpec
from cotenant_worker.pid1 import preparation
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.ranks.memory_limits import GpusUnusableError
from cotenant_worker.supervision.commands import Finish
from tests.support.pod_sandbox import contract


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(preparation, "log_line", lines.append)
    return lines


@pytest.mark.parametrize(
    ("collective", "command", "warnings", "lines"),
    [
        pytest.param("gloo", "", {}, [], id="nothing else than the job asks for"),
        pytest.param(
            "nccl",
            "torchrun: --x has no effect here",
            {
                "collective": "collective: nccl was asked for, but the GPUs are simulated; gloo is used",
                "command": "torchrun: --x has no effect here",
            },
            ["torchrun: --x has no effect here"],
            id="another collective, and options without effect",
        ),
    ],
)
def test_choices_other_than_the_jobs_are_warnings(
    log: list[str], collective: Any, command: str, warnings: dict[str, str], lines: list[str]
) -> None:
    board = ProgressBoard()
    preparation.publish_choices(contract([1], collective=collective), board, command)
    assert (board.collective, board.warnings, log) == ("gloo", warnings, lines)


LIMITS = {
    0: {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.5", "COTENANT_LIMITS": "of grant 0"},
    1: {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.25", "COTENANT_LIMITS": "of grant 1"},
}


@pytest.mark.parametrize(
    ("mode", "limits", "of_ray"),
    [
        pytest.param("command", LIMITS, None, id="the ranks' own processes"),
        pytest.param("rayTrain", LIMITS, LIMITS[1], id="Ray Train: the tightest, a worker may use any of the GPUs"),
        pytest.param("rayTrain", {}, {}, id="nothing is limited"),
    ],
)
async def test_limits_are_given_to_the_ranks_and_to_ray_train(
    monkeypatch: pytest.MonkeyPatch, log: list[str], mode: Any, limits: Any, of_ray: Any
) -> None:
    problems = [("limits", "they are not applied")]
    monkeypatch.setattr(preparation, "memory_limits_of", lambda _job: (limits, problems))
    board = ProgressBoard()
    ranks: Any = SimpleNamespace(limits=None)
    ray: Any = SimpleNamespace(limits=None)
    finish = await preparation.apply_memory_limits(contract([2], mode=mode), board, ranks, ray)
    assert (finish, ranks.limits, ray.limits) == (None, limits, of_ray)
    assert (board.warnings, log) == ({"limits": "they are not applied"}, ["they are not applied"])


async def test_a_pod_whose_share_is_too_small_does_not_start(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    monkeypatch.setattr(preparation, "memory_limits_of", lambda _job: ("the share is too small", []))
    board = ProgressBoard()
    nothing: Any = SimpleNamespace(limits=None)
    finish = await preparation.apply_memory_limits(contract([1]), board, nothing, nothing)
    assert finish == Finish(83, "Quota", "the share is too small")
    assert (nothing.limits, board.warnings, log) == (None, {}, [])


async def test_a_pod_whose_gpus_do_not_work_does_not_start_and_blames_its_node(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_job: Any) -> Any:
        raise GpusUnusableError("granted GPU-a, but sees no GPU")

    monkeypatch.setattr(preparation, "memory_limits_of", fails)
    nothing: Any = SimpleNamespace(limits=None)
    finish = await preparation.apply_memory_limits(contract([1]), ProgressBoard(), nothing, nothing)
    assert finish == Finish(86, "GPUsUnusable", "granted GPU-a, but sees no GPU")


@pytest.mark.parametrize("path", ["", "s3://bucket/runs"])
async def test_a_job_without_a_folder_for_checkpoints_gets_none(path: str) -> None:
    assert await preparation.prepare_checkpoint_folder(contract([1], checkpoint=CheckpointSpec(path))) is None


async def test_the_folder_for_checkpoints_is_there_and_empty_before_any_rank_starts(tmp_path: Path) -> None:
    folder = tmp_path / "volume" / "job"
    for _ in range(2):  # the second pod, and the next attempt
        assert (
            await preparation.prepare_checkpoint_folder(contract([1], checkpoint=CheckpointSpec(str(folder)))) is None
        )
    assert (folder.is_dir(), list(folder.iterdir())) == (True, [])


async def test_a_folder_that_another_pod_makes_and_that_is_seen_late_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens on a parallel file system: mkdir says that the folder exists, and stat that it does not."""
    make, looks = Path.mkdir, iter([True, True])
    waited: list[float] = []

    def mkdir(path: Path, **options: Any) -> None:
        make(path, **options)
        if next(looks, False):
            raise FileExistsError(17, "File exists")

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr("time.sleep", waited.append)
    job = contract([1], checkpoint=CheckpointSpec(str(tmp_path / "job")))
    assert await preparation.prepare_checkpoint_folder(job) is None
    assert len(waited) == 2


async def test_a_file_in_place_of_the_folder_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    (tmp_path / "job").touch()
    ended = await preparation.prepare_checkpoint_folder(contract([1], checkpoint=CheckpointSpec(str(tmp_path / "job"))))
    assert ended is not None
    assert ended.message.endswith("Not a directory")


async def test_a_folder_that_cannot_be_written_ends_the_attempt_before_it_trains(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "job")
    assert await preparation.prepare_checkpoint_folder(contract([1], checkpoint=CheckpointSpec(path))) == Finish(
        names.EXIT_BAD_CONTRACT,
        "CheckpointNotWritable",
        f"checkpoint.path: nothing can be written to {path}: Not a directory",
    )


async def test_a_folder_of_another_user_is_told_with_the_users_of_the_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubernetes/examples#260: the kubelet gives no folder of NFS the group of a pod."""

    def denied(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    for name, value in (("getuid", 65532), ("getgid", 65532), ("getgroups", [100])):
        monkeypatch.setattr(f"os.{name}", lambda value=value: value)
    monkeypatch.setattr(preparation, "_write_into", denied)
    ended = await preparation.prepare_checkpoint_folder(contract([1], checkpoint=CheckpointSpec("/nfs/job")))
    assert ended is not None
    assert ended.message == (
        "checkpoint.path: nothing can be written to /nfs/job: Permission denied. The pod's user is 65532, its groups"
        " are 100, 65532: let one of them write there"
    )


@pytest.mark.parametrize(
    ("folder", "readable", "refused"),
    [
        pytest.param("code", False, True, id="it belongs to somebody else"),
        pytest.param("code", True, False, id="it may be read"),
        pytest.param("none", False, False, id="a job without code"),
    ],
)
def test_code_that_the_pods_user_may_not_read_ends_the_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, readable: bool, refused: bool
) -> None:
    """Its program would start in an empty folder, and say only that there is no train.py."""
    (tmp_path / "code").mkdir(mode=0o700)
    (tmp_path / "code").chmod(0o700)
    monkeypatch.setattr("os.access", lambda *_: readable)
    found = preparation.refuse_unreadable_code(contract([1], platform={"codePath": str(tmp_path / folder)}))
    assert (found is not None) is refused
    if found is not None:
        assert (found.code, found.reason) == (names.EXIT_BAD_CONTRACT, "CodeNotReadable")
        assert f"may not read {tmp_path}/code, which belongs to user {os.getuid()} (mode 700)" in found.message
