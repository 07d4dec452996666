"""What a rank runs, seen in a command line."""

from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.contract import GpuGrant, PodGrant, RankGrant
from cotenant_worker.ranks.program import (
    Preloads,
    Program,
    classify,
    preloads,
    program_of,
    script_text,
    source_file,
    source_text,
    wants_horovod,
)
from tests.support.pod_sandbox import contract, uuid_of

PYTHON = "/opt/venv/bin/python3.11"
TORCH = Preloads(("torch", "torch.distributed"), ("torch._dynamo",))


@pytest.mark.parametrize(
    ("command", "want"),
    [
        (("python", "train.py", "--lr", "1"), Program("script", ("train.py", "--lr", "1"))),
        (("python3", "-u", "train.py"), Program("script", ("train.py",))),
        (("/opt/venv/bin/python", "-m", "pkg.train", "x"), Program("module", ("pkg.train", "x"))),
        (("/usr/bin/python3", "train.py"), Program("exec", ("/usr/bin/python3", "train.py"))),
        (("/opt/venv/bin/python", "train.py"), Program("script", ("train.py",))),
        (("python3.8", "train.py"), Program("exec", ("python3.8", "train.py"))),
        (("python", "-c", "print(1)"), Program("exec", ("python", "-c", "print(1)"))),
        (("python", "-B", "train.py"), Program("exec", ("python", "-B", "train.py"))),
        (("bash", "-c", "python train.py"), Program("exec", ("bash", "-c", "python train.py"))),
        (
            ("torchrun", "--nproc-per-node=2", "--nnodes", "1", "--standalone", "train.py", "--epochs", "3"),
            Program("script", ("train.py", "--epochs", "3"), "torchrun"),
        ),
        (("torchrun", "--nproc_per_node", "4", "-m", "pkg.train"), Program("module", ("pkg.train",), "torchrun")),
        (
            ("python", "-m", "torch.distributed.run", "--nnodes=2", "train.py"),
            Program("script", ("train.py",), "torch.distributed.run"),
        ),
        (("torchrun", "--no-python", "bash", "run.sh"), Program("exec", ("bash", "run.sh"), "torchrun")),
        (
            ("accelerate", "launch", "--multi_gpu", "--mixed_precision", "bf16", "train.py", "--x"),
            Program("script", ("train.py", "--x"), "accelerate", (("ACCELERATE_MIXED_PRECISION", "bf16"),)),
        ),
        (
            ("accelerate", "launch", "--mixed-precision=fp16", "--num_processes=2", "--multi_gpu", "-m", "pkg.train"),
            Program("module", ("pkg.train",), "accelerate", (("ACCELERATE_MIXED_PRECISION", "fp16"),)),
        ),
        (
            ("accelerate", "launch", "--main_process_port", "0", "python", "train.py", "--use_fsdp"),
            Program("script", ("train.py", "--use_fsdp"), "accelerate"),
        ),
        (
            ("accelerate-launch", "--mixed_precision=bf16", "train.py"),
            Program("script", ("train.py",), "accelerate-launch", (("ACCELERATE_MIXED_PRECISION", "bf16"),)),
        ),
        (("accelerate", "config"), Program("exec", ("accelerate", "config"))),
        (("horovodrun", "-np", "4", "python", "train.py"), Program("script", ("train.py",), "horovodrun")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value.kind,
)
def test_launchers_are_taken_off_and_python_is_recognised(command: tuple[str, ...], want: Program) -> None:
    assert program_of(replace(contract([4]), command=command), PYTHON) == want


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        pytest.param("--gpu_ids 0,1 --num_processes 8", None, id="where the ranks run"),
        pytest.param("--mixed_precision bf16", None, id="what the program reads"),
        pytest.param("--config_file fsdp.yaml", "--config_file fsdp.yaml", id="a configuration"),
        pytest.param("--multi_gpu --use_fsdp --num_processes=8", "--use_fsdp --num_processes=8", id="a way to train"),
        pytest.param("--use_deepspeed --no_python", None, id="a program that is not Python"),
    ],
)
@pytest.mark.parametrize("program", ["train.py --lr 1", "-m pkg.train --lr 1", "python train.py --lr 1"])
@pytest.mark.parametrize("launcher", ["accelerate launch", "accelerate-launch", "python -m accelerate.commands.launch"])
def test_accelerate_itself_makes_variables_of_options_that_only_it_understands(
    launcher: str, options: str, kept: str | None, program: str
) -> None:
    command = tuple(f"{launcher} {options} {program}".split())
    found = program_of(replace(contract([8]), command=command), PYTHON)
    plain = program.removeprefix("python ")
    one = f"{launcher} {kept} --num_processes=1 --num_machines=1 --machine_rank=0 --gpu_ids=all {plain}"
    assert (found.kind, found.warning) == ("exec" if kept else "module" if "pkg" in program else "script", "")
    assert found.argv == (tuple(one.split()) if kept else tuple(plain.removeprefix("-m ").split()))


def test_an_entrypoint_is_a_program_too() -> None:
    job = replace(contract([1]), mode="entrypoint", entrypoint="pkg.mod:main")
    assert program_of(job, PYTHON) == Program("entrypoint", ("pkg.mod:main",))


def test_without_a_warm_process_the_same_program_starts_cold() -> None:
    assert Program("script", ("a.py", "1")).command("py") == ("py", "-u", "a.py", "1")
    assert Program("module", ("a.b", "1")).command("py") == ("py", "-u", "-m", "a.b", "1")
    assert Program("entrypoint", ("a:b",)).command("py") == ("py", "-m", "cotenant_worker.ranks.program_runner", "a:b")


@pytest.mark.parametrize(
    ("source", "framework", "want"),
    [
        ("import os\nimport yaml\nfrom tqdm import tqdm\nimport torch", "", TORCH),
        ("import gymnasium as gym\nimport wandb\nimport torch", "", TORCH),
        ("import timm", "", TORCH),
        ("import os, sys, torch as t", "", TORCH),
        ("import isaacgym\nimport torch", "pytorch", Preloads()),
        ("import isaacgym, torch", "", Preloads()),
        ("import numpy as np\nfrom comet_ml import Experiment\nimport torch", "", Preloads(("numpy",))),
        ("from mine import setup\nimport torch", "", Preloads()),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'\nimport torch", "pytorch", Preloads()),
        ("import os\nos.environ.setdefault('TORCH_LOGS', '+dynamo')\nimport torch", "", Preloads()),
        ("import os\nif os.environ['RANK'] == '0':\n    print()\nimport torch", "", TORCH),
        ("import torch\nimport os\nos.environ['CUDA_VISIBLE_DEVICES'] = '0'", "", TORCH),
        ("import torch\nimport os\nos.environ['TORCHDYNAMO_DISABLE'] = '1'", "", Preloads(TORCH.required)),
        ("import torch\nimport torch.nn as nn", "", TORCH),
        ("from sklearn.datasets import load_digits\nimport numpy as np", "", Preloads(("numpy", "sklearn.datasets"))),
        ("from accelerate import Accelerator", "", TORCH),
        ("import jax", "", Preloads()),
        ("from mine import train", "pytorch", TORCH),
        ("from .mine import setup\nimport torch", "", Preloads()),
        ("from . import mine\nimport torch", "pytorch", TORCH),
        ("# import torch would be slow", "", Preloads()),
    ],
)
def test_only_what_the_program_imports_is_imported_ahead(source: str, framework: str, want: Preloads) -> None:
    assert preloads(source, framework, {"mine"}) == want


def test_the_programs_file_is_found_without_importing_it(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").touch()
    assert source_file(Program("entrypoint", ("pkg.train:main",)), tmp_path) == tmp_path / "pkg" / "train.py"
    assert source_file(Program("module", ("pkg.train",)), tmp_path) == tmp_path / "pkg" / "train.py"
    assert source_file(Program("script", ("absent.py",)), tmp_path) is None


@pytest.mark.parametrize(
    ("program", "text"),
    [
        (Program("module", ("pkg.sub.train",)), "pkg\nsub\ntrain"),
        (Program("entrypoint", ("pkg.sub.train:main",)), "pkg\nsub\ntrain"),
        (Program("module", ("pkg.sub",)), "pkg\nsub\nmain"),
        (Program("script", ("pkg/sub/train.py",)), "train"),
        (Program("module", ("elsewhere.train",)), ""),
    ],
    ids=lambda value: " ".join(value.argv) if isinstance(value, Program) else "",
)
def test_the_packages_of_a_module_are_imported_before_it(tmp_path: Path, program: Program, text: str) -> None:
    files = {"pkg/__init__.py": "pkg", "pkg/sub/__init__.py": "sub"}
    for name, words in {**files, "pkg/sub/train.py": "train", "pkg/sub/__main__.py": "main"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(words)
    beside = frozenset({"__init__", "__main__", "train"} if text else ())
    assert source_text(program, tmp_path) == (text, beside)


def test_a_program_that_the_pods_user_may_not_read_is_left_to_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").touch()

    def refuse(*_: object, **__: object) -> str:
        raise PermissionError

    monkeypatch.setattr(Path, "read_text", refuse)
    assert source_text(Program("script", ("train.py",)), tmp_path) == ("", frozenset())
    assert script_text(Program("exec", ("bash", "train.py")), tmp_path) == ""


@pytest.mark.parametrize(
    ("command", "text"),
    [
        (("bash", "run.sh", "a"), "of the file"),
        (("./run.sh",), "of the file"),
        (("timeout", "1h", "bash", "-euo", "pipefail", "run.sh"), "of the file"),
        (("bash", "-lc", "typed", "run.sh"), "typed"),
        (("env", "A=1", "/bin/sh", "-c", "typed"), "typed"),
        (("/bin/bash", "-c", "--", "typed"), "typed"),
        (("bash", "absent.sh"), ""),
        (("uv", "run", "train.py"), ""),
        (("make", "train"), ""),
    ],
    ids=" ".join,
)
def test_the_text_of_a_run_script_is_found_behind_what_starts_it(
    tmp_path: Path, command: tuple[str, ...], text: str
) -> None:
    (tmp_path / "run.sh").write_text("of the file")
    assert script_text(Program("exec", command), tmp_path) == text


@pytest.mark.parametrize(
    ("command", "want"),
    [
        (("torchrun", "--nproc_per_node=2", "a.py"), ""),
        (("torchrun", "a.py"), ""),
        (("torchrun", "--nnodes=1:4", "--nproc-per-node", "1", "a.py"), "nproc_per_node=1 nnodes=4 asks for 4 ranks"),
        (("torchrun", "--nproc_per_node=8", "a.py"), "nproc_per_node=8 asks for 8 ranks, this job has 2"),
        (("torchrun", "--nproc_per_node=$N", "a.py"), ""),
        (("accelerate", "launch", "--num_processes", "4", "a.py"), "num_processes=4 asks for 4 ranks"),
        (("horovodrun", "-np", "3", "python", "a.py"), "np=3 asks for 3 ranks"),
        (("composer", "-n", "8", "a.py"), "n=8 asks for 8 ranks"),
        (("composer", "-n", "8", "--world_size=16", "a.py"), "world_size=16 asks for 16 ranks"),
        (("deepspeed", "--num_gpus=4", "--num_nodes", "2", "a.py"), "num_gpus=4 num_nodes=2 asks for 8 ranks"),
        (("python", "a.py", "--nproc_per_node=8"), ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_launcher_that_was_asked_for_more_ranks_than_there_are_is_said(command: tuple[str, ...], want: str) -> None:
    warning = program_of(replace(contract([2]), command=command), PYTHON).warning
    assert (want in warning) if want else (warning == ""), warning


@pytest.mark.parametrize(
    ("command", "ranks", "said"),
    [
        (("mpirun", "-np", "4", "python", "a.py"), 2, True),
        (("/opt/openmpi/bin/mpiexec", "python", "a.py"), 2, True),
        (("mpirun", "-np", "4", "python", "a.py"), 1, False),
        (("python", "mpirun", "a.py"), 2, False),
    ],
)
def test_an_mpi_launcher_in_every_rank_is_said(command: tuple[str, ...], ranks: int, said: bool) -> None:
    warning = program_of(replace(contract([ranks]), command=command), PYTHON).warning
    assert ("workers: 1 with all GPUs" in warning) is said, warning


@pytest.mark.parametrize(
    ("command", "retries", "said"),
    [
        (("torchrun", "--max-restarts=3", "a.py"), 0, "torchrun: max_restarts=3"),
        (("torchrun", "--max_restarts", "3", "a.py"), 2, "say retries: 3 in the job"),
        (("accelerate", "launch", "--max_restarts=1", "a.py"), 0, "accelerate: max_restarts=1"),
        (("torchrun", "--max-restarts=3", "a.py"), 3, ""),
        (("torchrun", "--max-restarts=0", "a.py"), 0, ""),
        (("python", "a.py", "--max-restarts=3"), 0, ""),
    ],
)
def test_a_launcher_that_was_to_start_ranks_again_is_said(command: tuple[str, ...], retries: int, said: str) -> None:
    job = replace(contract([2]), command=command, platform={"retries": retries} if retries else {})
    warning = program_of(job, PYTHON).warning
    assert (said in warning) if said else (warning == ""), warning


def test_ranks_of_an_elastic_job_may_be_fewer_than_its_command_line_says() -> None:
    job = replace(contract([2]), command=("torchrun", "--nproc_per_node=8", "a.py"), workers_min=1)
    assert program_of(job, PYTHON).warning == ""


def test_a_rank_with_several_gpus_is_not_one_rank_for_each() -> None:
    job = replace(contract([2]), command=("torchrun", "--nproc_per_node=gpu", "a.py"))
    both = tuple(replace(rank, gpus=rank.gpus * 2) for rank in job.pods[0].ranks)
    job = replace(job, pods=(replace(job.pods[0], ranks=both),))
    assert program_of(job, PYTHON).warning.startswith("torchrun: one rank has 2 GPUs")


@pytest.mark.parametrize(
    ("command", "want"),
    [
        (("torchrun", "a.py", "--lr", "1"), ("a.py", "--lr", "1")),
        (("python", "-m", "torch.distributed.launch", "a.py", "x"), ("a.py", "--local-rank=3", "x")),
        (("python", "-m", "torch.distributed.launch", "--use_env", "a.py", "x"), ("a.py", "x")),
        (("python", "-m", "torch.distributed.launch", "-m", "pkg.a", "x"), ("pkg.a", "--local-rank=3", "x")),
        (("python", "-m", "torch.distributed.launch", "--no-python", "./a", "x"), ("./a", "--local-rank=3", "x")),
        (("deepspeed", "--num_gpus=2", "a.py", "--deepspeed"), ("a.py", "--local_rank=3", "--deepspeed")),
        (("deepspeed", "--no_local_rank", "a.py"), ("a.py",)),
    ],
    ids=" ".join,
)
def test_launchers_that_tell_a_rank_its_local_rank_on_its_command_line(
    command: tuple[str, ...], want: tuple[str, ...]
) -> None:
    assert program_of(replace(contract([8]), command=command), PYTHON).for_rank("3").argv == want


AS_TYPED = [
    ("torchrun", "--nproc_per_node=8", "a.py"),
    ("torchrun", "--standalone", "--nnodes=1", "--nproc-per-node", "gpu", "a.py"),
    ("python", "-m", "torch.distributed.run", "--nnodes", "1:1", "--nproc_per_node=4", "a.py"),
    ("accelerate", "launch", "--multi_gpu", "a.py"),
    ("accelerate", "launch", "--num_processes", "8", "--num_machines=1", "a.py"),
    ("deepspeed", "a.py", "--deepspeed", "ds.json"),
    ("deepspeed", "--num_gpus=2", "a.py"),
    ("horovodrun", "-np", "8", "python", "a.py"),
    ("composer", "a.py"),
    ("composer", "-n", "8", "a.py"),
]
TAKEN_OFF = [
    ("torchrun", "a.py"),
    ("torchrun", "--nproc_per_node=16", "a.py"),
    ("torchrun", "--nnodes=2", "--nproc_per_node=8", "a.py"),
    ("accelerate", "launch", "--num_processes=1", "a.py"),
    ("deepspeed", "--hostfile", "hosts", "a.py"),
    ("horovodrun", "-np", "8", "-H", "a:4,b:4", "python", "a.py"),
    ("composer", "-n", "8", "--base_rank=8", "a.py"),
]


@pytest.mark.parametrize("command", [*AS_TYPED, *TAKEN_OFF], ids=" ".join)
def test_a_launcher_runs_as_typed_if_it_starts_a_process_on_gpus_of_the_only_worker(command: tuple[str, ...]) -> None:
    gpus = tuple(GpuGrant(uuid_of(f"{index}"), 81920, 1000, whole=True) for index in range(8))
    alone = replace(contract([1]), command=command, pods=(PodGrant("a", (RankGrant(0, gpus),)),))
    found = program_of(alone, PYTHON)
    assert (found.launcher == "") is (command in AS_TYPED)
    if command in AS_TYPED:
        assert (found.command(PYTHON)[1 - len(command) :], found.warning) == (command[1:], "")
    two = replace(alone, pods=tuple(PodGrant(f"pod-{rank}", (RankGrant(rank, gpus),)) for rank in range(2)))
    for other in (two, replace(alone, workers_min=1), replace(contract([1]), command=command)):
        assert program_of(other, PYTHON).argv[0] == "a.py", other


def test_an_interpreter_of_the_image_gets_the_local_rank_behind_its_program() -> None:
    program = Program("exec", ("/usr/bin/python3", "-u", "a.py", "x"), local_rank_option="--local-rank")
    assert program.for_rank("1").argv == ("/usr/bin/python3", "-u", "a.py", "--local-rank=1", "x")


@pytest.mark.parametrize(
    ("source", "launcher", "framework", "want"),
    [
        ("import horovod.torch as hvd", "", "", True),
        ("import torch", "horovodrun", "", True),
        ("import torch", "", "horovod", True),
        ("import torch  # not horovod", "torchrun", "pytorch", False),
    ],
)
def test_horovods_rendezvous_is_for_programs_that_use_horovod(
    source: str, launcher: str, framework: str, want: bool
) -> None:
    assert wants_horovod(Program("script", ("train.py",), launcher), source, framework) is want


def test_the_interpreter_of_another_environment_is_run_as_typed(tmp_path: Path) -> None:
    """Its `python` is a link to the interpreter that ours is a link to."""
    base = tmp_path / "base" / "python3"
    base.parent.mkdir()
    base.touch()
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python").symlink_to(base)
    ours, theirs = (str(tmp_path / name / "python") for name in ("ours", "theirs"))
    assert classify([theirs, "train.py"], ours) == Program("exec", (theirs, "train.py"))
    assert classify([ours, "train.py"], ours) == Program("script", ("train.py",))
