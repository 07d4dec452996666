"""The programs of examples/parallelism in worker pods: what they learn, what each rank holds, how they go on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.contract import CheckpointSpec
from tests.support import pod_sandbox
from tests.support.pod_sandbox import PodSandbox, contract, until

EXAMPLES = Path(__file__).parents[4] / "examples" / "parallelism"
START_S = 120
"""Patience for a start on a busy machine."""

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(bool(pod_sandbox.missing()), reason=pod_sandbox.missing() or "can run"),
]

WHOLE = 137_674
"""Parameters of the model: 64·64+64 at its door, 4 blocks of 128 + 64·256+256 + 256·64+64, 64·10+10 at the end."""
DIVIDED = 4 * (64 * 256 + 256 + 256 * 64)
"""Of these what tensor parallelism divides: the matrices of the blocks, and the biases of the first ones."""
BLOCK = 128 + 64 * 256 + 256 + 256 * 64 + 64
HELD = {
    "fsdp": [WHOLE // 2] * 2,
    "tensor-parallel": [WHOLE - DIVIDED // 2] * 2,
    "pipeline": [64 * 64 + 64 + 2 * BLOCK, 2 * BLOCK + 64 * 10 + 10],
    "fsdp-tensor-parallel": [(WHOLE - DIVIDED // 2) // 2] * 4,
}
"""Parameters by rank."""
BYTES_EACH = 16
"""A parameter of float32, its gradient, and the two moments of AdamW."""
SCALARS_BYTES = 4 * 32
"""At most: AdamW counts the steps of every tensor by itself."""
PODS = {"fsdp": [1, 1], "tensor-parallel": [2], "pipeline": [1, 1], "fsdp-tensor-parallel": [2, 2]}
"""Ranks by pod."""


def program(name: str, folder: Path) -> None:
    """Put the example's program into the folder, under its own name."""
    documents = yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text())
    code = next(one for one in documents if one["kind"] == "ConfigMap")
    (folder / f"{name}.py").write_text(code["data"]["train.py"])


def sandbox(name: str, steps: int, folder: Path, *, attempt: int = 1) -> PodSandbox:
    """Pods that run the example for so many steps, its checkpoints in the folder."""
    program(name, folder)
    command, checkpoint = ("python", f"{name}.py", str(steps)), CheckpointSpec(str(folder))
    job = contract(PODS[name], command=command, checkpoint=checkpoint, attempt=attempt, grace_s=30)
    return PodSandbox(job, folder, env={"OMP_NUM_THREADS": "1"})


def trained(name: str, steps: int, folder: Path, *, attempt: int = 1) -> tuple[dict[str, Any], str]:
    """Results and logs of the example after so many steps, its checkpoints in the folder."""
    with sandbox(name, steps, folder, attempt=attempt) as world:
        started = world.start_all()
        codes = [pod.wait(START_S) for pod in started]
        logs = world.logs()
        assert codes == [0] * len(started), logs
        termination = started[0].termination()
    assert termination.last_checkpoint_step == steps, logs
    return dict(termination.results), logs


@pytest.mark.parametrize("name", sorted(HELD))
def test_the_example_learns_what_one_process_learns_and_each_rank_holds_its_part(name: str) -> None:
    with pod_sandbox.directory() as folder:
        results, logs = trained(name, 60, folder)
    parts = HELD[name]
    assert results["model_parameters"] == WHOLE
    assert [results[f"rank_{rank}_parameters"] for rank in range(len(parts))] == parts
    for rank, part in enumerate(parts):
        assert 0 <= results[f"rank_{rank}_bytes"] - part * BYTES_EACH <= SCALARS_BYTES
    assert results["test_loss"] == pytest.approx(results["plain_test_loss"], rel=0.01)
    assert results["test_loss"] < 0.2, logs


def test_a_layout_goes_on_from_the_shards_of_another() -> None:
    first, *others = sorted(HELD)
    with pod_sandbox.directory() as folder:
        trained(first, 20, folder)
        for attempt, name in enumerate(others, start=2):
            results, logs = trained(name, 20 * attempt, folder, attempt=attempt)
            ranks = sum(PODS[name])
            starts = [f"rank {rank} of {ranks} starts at {20 * (attempt - 1)}" in logs for rank in range(ranks)]
            assert starts == [True] * ranks, logs
            assert results["test_loss"] == pytest.approx(results["plain_test_loss"], rel=0.01), name


def test_ranks_that_are_asked_to_leave_save_their_shards_and_go_on_from_the_same_step() -> None:
    with pod_sandbox.directory() as folder:
        with sandbox("fsdp", 1_000_000, folder) as world:
            head, other = world.start_all()
            until(lambda: head.progress().step > 5, START_S, "training")
            for pod in (head, other):
                pod.signal(signal.SIGTERM)
            codes = [pod.wait(START_S) for pod in (head, other)]
            saved = head.termination().last_checkpoint_step
            assert codes == [143, 143], world.logs()
        assert saved is not None
        results, logs = trained("fsdp", saved + 20 - saved % 20, folder, attempt=2)
    assert logs.count(f"starts at {saved}\n") == 2, logs
    assert results["test_loss"] == pytest.approx(results["plain_test_loss"], rel=0.01)
