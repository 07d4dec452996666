"""What a rank runs, seen in a command line."""

from dataclasses import replace
from pathlib import Path

import pytest
from podlike import contract

from cotenant_worker.programs import Preloads, Program, preloads, program_of, source_file, unwrap

PYTHON = "/opt/venv/bin/python3.11"
TORCH = Preloads(("torch", "torch.distributed"), ("torch._dynamo",))


@pytest.mark.parametrize(
    ("command", "want"),
    [
        (("python", "train.py", "--lr", "1"), Program("script", ("train.py", "--lr", "1"))),
        (("python3", "-u", "train.py"), Program("script", ("train.py",))),
        (("/opt/venv/bin/python", "-m", "pkg.train", "x"), Program("module", ("pkg.train", "x"))),
        (("/usr/bin/python3", "train.py"), Program("exec", ("/usr/bin/python3", "train.py"))),
        (("python", "-c", "print(1)"), Program("exec", ("python", "-c", "print(1)"))),
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
            ("accelerate", "launch", "--mixed-precision=fp16", "--num_processes=2", "--use_fsdp", "-m", "pkg.train"),
            Program("module", ("pkg.train",), "accelerate", (("ACCELERATE_MIXED_PRECISION", "fp16"),), ("--use_fsdp",)),
        ),
        (
            ("accelerate", "launch", "--config_file", "my.yaml", "python", "train.py", "--use_fsdp"),
            Program("script", ("train.py", "--use_fsdp"), "accelerate", (), ("--config_file",)),
        ),
        (("accelerate", "config"), Program("exec", ("accelerate", "config"))),
        (("horovodrun", "-np", "4", "python", "train.py"), Program("script", ("train.py",), "horovodrun")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value.kind,
)
def test_launchers_are_taken_off_and_python_is_recognised(command: tuple[str, ...], want: Program) -> None:
    assert program_of(replace(contract([1]), command=command), PYTHON) == want


def test_an_option_without_effect_is_said_and_one_that_only_places_ranks_is_not() -> None:
    command = ("accelerate", "launch", "--gpu_ids", "0,1", "--use_deepspeed", "--zero_stage=2", "train.py")
    said = "accelerate: --use_deepspeed --zero_stage=2 has no effect here; say it in the program or in the job"
    assert program_of(replace(contract([1]), command=command), PYTHON).objection == said
    assert (
        program_of(replace(contract([1]), command=("torchrun", "--nproc-per-node=2", "a.py")), PYTHON).objection == ""
    )


def test_an_unknown_command_is_left_as_it_is() -> None:
    assert unwrap(("./train", "--fast")) == (("./train", "--fast"), "")


def test_an_entrypoint_is_a_program_too() -> None:
    job = replace(contract([1]), mode="entrypoint", entrypoint="pkg.mod:main")
    assert program_of(job, PYTHON) == Program("entrypoint", ("pkg.mod:main",))


def test_without_a_warm_process_the_same_program_starts_cold() -> None:
    assert Program("script", ("a.py", "1")).command("py") == ("py", "-u", "a.py", "1")
    assert Program("module", ("a.b", "1")).command("py") == ("py", "-u", "-m", "a.b", "1")
    assert Program("entrypoint", ("a:b",)).command("py") == ("py", "-m", "cotenant_worker.rank", "a:b")


@pytest.mark.parametrize(
    ("source", "framework", "want"),
    [
        ("import torch\nimport torch.nn as nn", "", TORCH),
        ("from sklearn.datasets import load_digits\nimport numpy as np", "", Preloads(("numpy", "sklearn.datasets"))),
        ("from accelerate import Accelerator", "", TORCH),
        ("import jax", "", Preloads()),
        ("from mine import train", "pytorch", TORCH),
        ("# import torch would be slow", "", Preloads()),
    ],
)
def test_only_what_the_program_imports_is_imported_ahead(source: str, framework: str, want: Preloads) -> None:
    assert preloads(source, framework) == want


def test_the_programs_file_is_found_without_importing_it(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "train.py").touch()
    assert source_file(Program("entrypoint", ("pkg.train:main",)), tmp_path) == tmp_path / "pkg" / "train.py"
    assert source_file(Program("module", ("pkg.train",)), tmp_path) == tmp_path / "pkg" / "train.py"
    assert source_file(Program("script", ("absent.py",)), tmp_path) is None
