"""Command lines of other launchers: the program behind them, and what they would have told it."""

from pathlib import Path

import pytest

from cotenant_worker.ranks.foreign_launchers import Unwrapped, unwrap, with_default_config, with_variables


@pytest.mark.parametrize(
    "command", [("./train", "--fast"), ("torchrun", "--help"), ("python", "-m", "http.server"), ("accelerate", "env")]
)
def test_a_command_without_a_program_behind_it_is_left_as_it_is(command: tuple[str, ...]) -> None:
    assert unwrap(command) == Unwrapped(command)


@pytest.mark.parametrize(
    ("command", "all_of_them"),
    [
        (("torchrun", "a.py"), True),
        (("torchrun", "--virtual-local-rank", "a.py"), False),
        (("deepspeed", "a.py"), True),
        (("composer", "-n", "2", "a.py"), True),
        (("accelerate", "launch", "a.py"), False),
        (("python", "a.py"), False),
    ],
)
def test_which_launchers_show_a_rank_all_gpus_of_its_machine(command: tuple[str, ...], all_of_them: bool) -> None:
    behind = unwrap(command)
    assert behind.shows_all_gpus is all_of_them
    assert behind.argv == ("python", "a.py")


@pytest.mark.parametrize(
    ("command", "env", "want"),
    [
        pytest.param(
            ("torchrun", "a.py", "--x"),
            {"PET_NPROC_PER_NODE": "8", "PET_NNODES": "1", "PET_RDZV_BACKEND": "c10d"},
            ("torchrun", "--nnodes=1", "--nproc_per_node=8", "a.py", "--x"),
            id="how many",
        ),
        pytest.param(
            ("python", "-u", "-m", "torch.distributed.run", "--nproc_per_node=2", "a.py"),
            {"PET_NPROC_PER_NODE": "8"},
            ("python", "-u", "-m", "torch.distributed.run", "--nproc_per_node=8", "--nproc_per_node=2", "a.py"),
            id="what is typed comes last, and counts",
        ),
        pytest.param(
            ("torchrun", "pkg.train"), {"PET_MODULE": "1"}, ("torchrun", "--module", "pkg.train"), id="a switch"
        ),
        pytest.param(("torchrun", "a.py"), {"PET_MODULE": "0"}, ("torchrun", "a.py"), id="a switch that is off"),
        pytest.param(
            ("torchrun", "a.py"), {"PET_MAX_RESTARTS": "3"}, ("torchrun", "--max_restarts=3", "a.py"), id="how often"
        ),
        pytest.param(("python", "a.py"), {"PET_NPROC_PER_NODE": "8"}, ("python", "a.py"), id="no torchrun"),
    ],
)
def test_options_of_torchrun_that_variables_set(
    command: tuple[str, ...], env: dict[str, str], want: tuple[str, ...]
) -> None:
    assert with_variables(command, env) == want


@pytest.mark.parametrize(
    ("command", "want"),
    [
        ("accelerate launch --multi_gpu --num_processes=2 /bin/lerobot-train --x", "python /bin/lerobot-train --x"),
        ("accelerate launch --num_processes 2 bin/train --cfg config.py", "python bin/train --cfg config.py"),
        ("accelerate launch --use_fsdp --mixed_precision bf16 finetune -m 3", "python finetune -m 3"),
        ("accelerate launch --no_python ./train a.py", "./train a.py"),
        ("accelerate launch --an_option_to_come train.py --x", "python train.py --x"),
        ("deepspeed --no_local_rank --num_gpus 2 ./finetune --x 1", "python ./finetune --x 1"),
        ("deepspeed --include localhost:0,1 --module pkg.train", "python -m pkg.train"),
        ("horovodrun --no-stall-check -np 2 -H a:1,b:1 --verbose bash run.sh", "bash run.sh"),
        ("composer -n 8 train.py --x", "python train.py --x"),
        ("composer --nproc 8 -m pkg.train", "python -m pkg.train"),
        ("composer -n 2 -c ./train a.py", "./train a.py"),
        ("horovodrun -np 2 ./train --config c.py", "./train --config c.py"),
        ("torchrun --standalone --nproc_per_node=8 -m nano.train -- --depth=20", "python -m nano.train --depth=20"),
        ("torchrun --nproc_per_node=8 -- train.py config.yaml", "python train.py config.yaml"),
        ("torchrun train.py -- -- x", "python train.py -- x"),
        ("torchrun train.py --x -- y", "python train.py --x -- y"),
        ("accelerate launch --use_fsdp -m pkg.train -- --x", "python -m pkg.train --x"),
        ("accelerate launch --an_option_to_come 1 train.py -- --x", "python train.py --x"),
        ("deepspeed --num_gpus 2 -- train.py --x", "python train.py --x"),
        ("composer -n 8 -c ./train -- a.py", "./train a.py"),
    ],
)
def test_the_program_begins_where_the_options_of_its_launcher_end(command: str, want: str) -> None:
    assert " ".join(unwrap(command.split()).argv) == want


@pytest.mark.parametrize(
    ("command", "python"),
    [
        ("{app}/torchrun --nproc_per_node=2 a.py", "{app}/python3"),
        ("{app}/accelerate launch a.py", "{app}/python3"),
        ("{app}/deepspeed a.py", "{app}/python3"),
        ("{app}/deepspeed bin/a", "{app}/python3"),
        ("/opt/app/bin/python3.11 -m torch.distributed.run a.py", "/opt/app/bin/python3.11"),
        ("/opt/without/python/torchrun a.py", "python"),
        ("torchrun a.py", "python"),
        ("python3 -m torch.distributed.run a.py", "python3"),
    ],
)
def test_a_launcher_of_another_environment_runs_programs_in_that_environment(
    tmp_path: Path, command: str, python: str
) -> None:
    (tmp_path / "python3").touch()
    assert unwrap(command.format(app=tmp_path).split()).argv[0] == python.format(app=tmp_path)


@pytest.mark.parametrize(
    ("command", "want"),
    [
        pytest.param("accelerate launch a.py", "accelerate launch --config_file={file} a.py", id="it is used"),
        pytest.param("accelerate-launch a.py", "accelerate-launch --config_file={file} a.py", id="by its other name"),
        pytest.param(
            "python -m accelerate.commands.launch a.py",
            "python -m accelerate.commands.launch --config_file={file} a.py",
            id="as a module",
        ),
        pytest.param("accelerate launch --config_file b.yaml a.py", None, id="another one is chosen"),
        pytest.param("accelerate launch --cpu a.py", None, id="not with --cpu"),
        pytest.param("torchrun a.py", None, id="of no other launcher"),
    ],
)
def test_accelerate_reads_the_configuration_that_was_made_for_it(
    tmp_path: Path, command: str, want: str | None
) -> None:
    file = tmp_path / "accelerate" / "default_config.yaml"
    env = {"HF_HOME": str(tmp_path)}
    assert " ".join(with_default_config(command.split(), env)) == command, "there is none"
    file.parent.mkdir()
    file.touch()
    assert " ".join(with_default_config(command.split(), env)) == (want or command).format(file=file)
