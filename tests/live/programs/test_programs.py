"""Programs as people write them: each trains to its end, goes on after a preemption, and says how it failed.

Each runs under the real process 1 of a pod, whose image has the packages of `packages.txt`. They make their data and
models themselves. `sources/` holds them as their authors would have written them: what they know of Cotenant is the
path of their checkpoints, by their own option for it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live.programs.attempts import Attempts
from tests.live.programs.table import PROGRAMS, SOURCES, Program
from tests.support import pod_sandbox

STEPS, MORE = 5, 25
"""A program is asked to leave once it has made so many, and then makes so many more than it had told by then."""

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(pod_sandbox.missing()), reason=pod_sandbox.missing() or "can run"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: sockets of Ray lie below it."""
    with tempfile.TemporaryDirectory(prefix="ct-", dir="/var/tmp") as name:
        yield Path(name)


@pytest.fixture
def attempts(program: Program, folder: Path, packages: Path) -> Attempts:
    if program.needs and not any(shutil.which(tool) for tool in program.needs):
        pytest.skip(f"{program.name} needs {' or '.join(program.needs)}")
    return Attempts(program, folder, packages)


each = pytest.mark.parametrize("program", [pytest.param(program, id=program.name) for program in PROGRAMS])


@each
def test_it_is_preempted_goes_on_from_its_checkpoint_and_ends_well(attempts: Attempts) -> None:
    left = attempts.run(steps=100_000, leave_at=STEPS)
    assert (left.code, left.termination.reason) == (143, "Preempted"), left.log
    last = left.last_step + MORE
    ended = attempts.run(steps=last)
    assert (ended.code, ended.termination.reason) == (0, "Completed"), ended.log
    assert (0 < ended.starts_at < last, ended.last_step) == (True, last), ended.log


@each
def test_its_failure_is_told_with_its_own_error_and_line(attempts: Attempts, program: Program) -> None:
    failed = attempts.run(steps=100_000, bad_batch=3)
    assert (failed.code, failed.termination.reason) == (1, "UserError"), failed.log
    assert re.search(r"rank \d ended with 1: ValueError: bad batch 3 ", failed.termination.message), failed.log
    assert program.bad_line in failed.termination.message, failed.log


def test_settings_of_accelerates_configuration_reach_every_rank(folder: Path, packages: Path) -> None:
    program = next(each for each in PROGRAMS if "configuration" in each.name)
    ended = Attempts(program, folder, packages).run(steps=STEPS)
    assert (ended.code, ended.log.count("starts at 0 with 2 in bf16")) == (0, 2), ended.log


def test_under_plain_torchrun_the_same_program_makes_the_same_weights(folder: Path, packages: Path) -> None:
    import torch

    program = next(each for each in PROGRAMS if each.name == "DDP behind torchrun")
    plain = folder / "plain"
    plain.mkdir()
    command = program.command_line(steps=STEPS, out=plain, bad_batch=-1)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", *command[1:]]
    subprocess.run(launcher, cwd=SOURCES / program.folder, check=True, timeout=300)
    ours = Attempts(program, folder, packages)
    assert ours.run(steps=STEPS).code == 0
    one, other = (torch.load(out / "snapshot.pt")["model"] for out in (plain, ours.checkpoints))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
