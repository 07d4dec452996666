"""Command lines of other launchers: the program behind them, and what they would have told it."""

import pytest

from cotenant_worker.ranks.foreign_launchers import Unwrapped, unwrap


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
