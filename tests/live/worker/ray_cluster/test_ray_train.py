"""Mode `rayTrain` in two pods: killed workers, a preemption with notice, and the next attempt that goes on."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import replace

import pytest

from cotenant.contract import CheckpointSpec
from tests.live.e2e.test_frameworks import installed
from tests.support import pod_sandbox
from tests.support.pod_sandbox import PodSandbox, contract, until
from tests.worker.processes import PROGRAMS

START_S = 480

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(pod_sandbox.missing()), reason=pod_sandbox.missing() or "can run"),
]


def steps_of(what: str, logs: str) -> list[str]:
    """What each of the two workers said; Ray may print a line twice."""
    said = dict(re.findall(rf"worker (\d) {what}", logs))
    assert sorted(said) == ["0", "1"], logs
    return list(said.values())


def test_a_preempted_run_saves_on_notice_and_the_next_attempt_goes_on() -> None:
    with pod_sandbox.directory() as shared:
        job = contract(
            [1, 1],
            command=("python", "ray_train_steps.py", "100000"),
            mode="rayTrain",
            checkpoint=CheckpointSpec(str(shared)),
            grace_s=30,
        )
        path = {"PYTHONPATH": str(installed("raytrain")), "RAY_DEDUP_LOGS": "0"}
        with PodSandbox(job, PROGRAMS, env=path) as world:
            head, other = world.start_all()
            # Ray Train's controller knows of a checkpoint seconds later. Before that it starts anew from nothing.
            until(lambda: (head.progress().last_checkpoint_step or 0) > 200, START_S, "checkpoints of ten seconds")
            os.kill(other.processes("ray::RayTrainWorker")[0], signal.SIGKILL)
            until(lambda: re.search(r"starts at [1-9]", head.log()), START_S, "Ray Train's own restart")
            # Ray Train hears of a drain through an actor that it starts after its workers.
            watchers = lambda: [pid for pod in (head, other) for pid in pod.processes("ray::PreemptionWatcher")]  # noqa: E731
            until(watchers, START_S, "the actor that looks for drains")
            before = head.progress().last_checkpoint_step or 0
            until(lambda: (head.progress().last_checkpoint_step or 0) > before + 20, START_S, "steps after the restart")
            for pod in (head, other):
                pod.signal(signal.SIGTERM)
            codes = [pod.wait(30) for pod in (head, other)]
            logs = world.logs()
        assert codes == [143, 143], logs
        saved = {int(step) for step in steps_of(r"saved (\d+) on notice", logs)}

        again = replace(job, attempt=2, command=("python", "ray_train_steps.py", str(max(saved) + 40)))
        with PodSandbox(again, PROGRAMS, env=path) as world:
            pods = world.start_all()
            codes = [pod.wait(START_S) for pod in pods]
            logs = world.logs()
        assert codes == [0, 0], logs
        starts = {int(step) for step in steps_of(r"starts at (\d+)", logs)}
        assert min(starts) >= min(saved), logs
