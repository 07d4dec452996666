"""Command lines of other launchers: the program behind them, and what they would have told it."""

import pytest

from cotenant_worker.ranks.foreign_launchers import Unwrapped, unwrap, with_variables


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
        pytest.param(("python", "a.py"), {"PET_NPROC_PER_NODE": "8"}, ("python", "a.py"), id="no torchrun"),
    ],
)
def test_options_of_torchrun_that_variables_set(
    command: tuple[str, ...], env: dict[str, str], want: tuple[str, ...]
) -> None:
    assert with_variables(command, env) == want
