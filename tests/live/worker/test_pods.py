"""Worker pods in namespaces of their own: real Ray, real gloo, things killed. Needs root; no Kubernetes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant.contract import CheckpointSpec, Termination
from tests.support import pod_sandbox
from tests.support.pod import Pod
from tests.support.pod_sandbox import PodSandbox, contract, until, uuid_of

PROGRAMS = Path(__file__).parents[3] / "tests" / "worker" / "programs"
START_S = 120
"""Patience for a start on a busy machine."""

pytestmark = [
    pytest.mark.ray,
    pytest.mark.skipif(bool(pod_sandbox.missing()), reason=pod_sandbox.missing() or "can run"),
]


def test_an_unchanged_torchrun_program_trains_over_two_pods() -> None:
    job = contract([1, 1], command=("torchrun", "--nproc-per-node=1", "ddp.py", "--flag"))
    with PodSandbox(job, PROGRAMS) as world:
        pods = world.start_all()
        codes = [pod.wait(START_S) for pod in pods]
        logs = world.logs()
    assert codes == [0, 0], logs
    for rank in range(2):
        assert f"rank {rank} of 2: sum 3.0, sees {uuid_of(f'{rank}a')}, argv ['--flag']" in logs
    assert "backend 'nccl' cannot work here" in logs


def test_a_program_that_was_written_for_one_machine_trains_over_two_pods() -> None:
    script = f"export MASTER_ADDR=localhost MASTER_PORT=12355; {sys.executable} ddp.py"
    with PodSandbox(contract([1, 1], command=("bash", "-c", script)), PROGRAMS) as world:
        codes = [pod.wait(START_S) for pod in world.start_all()]
        logs = world.logs()
    assert codes == [0, 0], logs
    assert logs.count("meets the others at") == 2


@pytest.mark.parametrize(
    ("pods", "clears"),
    [
        pytest.param([1], "pkill -9 -f python; pkill python; killall -q python", id="processes"),
        pytest.param([1, 1], f"{Path(sys.executable).parent}/ray stop --force", id="Ray"),
        pytest.param([1, 1], "ls -d /tmp/* | grep -i 'cotenant\\|ray' && exit 9", id="files"),
    ],
)
def test_a_script_that_clears_away_what_an_earlier_run_left_ends_nothing_of_ours(pods: list[int], clears: str) -> None:
    with pod_sandbox.directory() as code:
        (code / "run.sh").write_text(f"{clears}\n{sys.executable} {PROGRAMS}/ddp.py\n")
        with PodSandbox(contract(pods, command=("bash", "run.sh")), code) as world:
            codes = [pod.wait(START_S) for pod in world.start_all()]
            logs = world.logs()
    assert codes == [0 for _ in pods], logs
    assert f"rank 0 of {len(pods)}: " in logs


def test_killed_resumed_preempted_and_resumed_again_by_the_next_attempt() -> None:
    with pod_sandbox.directory() as shared:
        steps = contract(
            [1, 1],
            command=("python", "steps.py", "1000000", "20"),
            checkpoint=CheckpointSpec(str(shared)),
            grace_s=20,
        )
        with PodSandbox(steps, PROGRAMS) as world:
            head, other = world.start_all()
            until(lambda: head.progress().last_checkpoint_step, START_S, "a first checkpoint")
            assert head.progress().observed_gpus == {"0": [uuid_of("0a")], "1": [uuid_of("1a")]}
            os.kill(other.rank_process(1), signal.SIGKILL)
            until(lambda: "rank 1 was ended by SIGKILL" in str(head.progress().warnings), 30, "the restart")
            before = head.progress().last_checkpoint_step or 0
            until(lambda: (head.progress().last_checkpoint_step or 0) > before, 60, "a checkpoint after the restart")
            for pod in (head, other):
                pod.signal(signal.SIGTERM)
            codes = [pod.wait(25) for pod in (head, other)]
            logs = world.logs()
            saved = head.termination().last_checkpoint_step
        assert codes == [143, 143], logs
        assert saved is not None
        assert logs.count(f"stops after {saved}") == 2, logs

        again = replace(steps, attempt=2, command=("python", "steps.py", str(saved + 30), "20"))
        with PodSandbox(again, PROGRAMS) as world:
            pods = world.start_all()
            codes = [pod.wait(START_S) for pod in pods]
            logs = world.logs()
            results = pods[0].termination().results
        assert codes == [0, 0], logs
        assert logs.count(f"starts at {saved}") == 2, logs
        assert results == {"value": saved + 30.5}


LEAVES_SHARED_MEMORY = """
import os, subprocess
from cotenant_worker import context
place = "/dev/shm/000000_locals"
if context().restart == 0:
    open(place, "x").close()
    subprocess.run(["kill", "-KILL", str(os.getpid())])
print("finds", sorted(os.listdir("/dev/shm")))
"""


def test_ranks_that_start_again_in_place_find_the_shared_memory_of_a_new_pod() -> None:
    """Libraries take a segment that is there for that of a running program."""
    with pod_sandbox.directory() as code:
        (code / "train.py").write_text(LEAVES_SHARED_MEMORY)
        with PodSandbox(contract([1], command=("python", "train.py")), code) as world:
            codes = [pod.wait(START_S) for pod in world.start_all()]
            logs = world.logs()
    assert (codes, "finds []" in logs) == ([0], True), logs


def test_a_users_exit_code_arrives_in_every_pod_and_names_the_rank() -> None:
    with PodSandbox(contract([1, 2], command=("python", "fails.py", "2", "42")), PROGRAMS) as world:
        pods = world.start_all()
        codes = [pod.wait(START_S) for pod in pods]
        terminations = [pod.termination() for pod in pods]
        logs = world.logs()
    assert codes == [42, 42], logs
    assert [(each.reason, each.rank, each.tail[-1]) for each in terminations] == [
        ("UserError", 2, "rank 2 has had enough"),
    ] * 2


def test_a_rank_that_leaves_with_0_while_others_train_is_named() -> None:
    with PodSandbox(contract([1, 1], command=("python", "fails.py", "1", "0")), PROGRAMS) as world:
        pods = world.start_all()
        codes = [pod.wait(START_S) for pod in pods]
        termination = pods[0].termination()
        logs = world.logs()
    assert codes == [1, 1], logs
    assert (termination.reason, termination.rank) == ("ExitedEarly", 1)
    assert "rank 1 ended with 0" in termination.message


def hung(
    *command: str, rank: int = 1, timeout_s: int = 5, meanwhile: Callable[[Pod], None] = lambda _pod: None
) -> Termination:
    """How a pod of two ranks ends of which `rank` is named as the one that hangs."""
    job = contract([2], command=("python", *command), platform={"hangTimeoutSeconds": timeout_s})
    with PodSandbox(job, PROGRAMS) as world:
        [pod] = world.start_all()
        meanwhile(pod)
        code = pod.wait(START_S)
        logs = world.logs()
        assert code == 1, logs
        termination = pod.termination()
    assert (termination.reason, termination.rank) == ("HungCollective", rank), logs
    return termination


def test_a_hanging_collective_is_found_and_the_missing_rank_and_its_line_are_named() -> None:
    assert "rank 1 stands at hangs.py:11 in <module> after collective" in hung("hangs.py").message


def test_collectives_that_do_not_fit_together_are_told_with_the_line_of_each_rank() -> None:
    said = hung("mismatch.py", rank=0).message
    assert said.startswith("all 2 ranks have waited 5 s in collectives that do not fit together: ")
    assert "rank 0 is in all_reduce at mismatch.py:17 in <module>; rank 1 is in broadcast at mismatch.py:19" in said


def test_a_program_that_trains_in_processes_of_its_own_is_watched_in_those() -> None:
    def steps(pod: Pod) -> None:
        until(lambda: pod.progress().step == 20, START_S, "the steps of rank 0's child")
        seen = pod.progress()
        assert (seen.state, sorted(seen.observed_gpus)) == ("training", ["0", "1"])

    termination = hung("spawned.py", meanwhile=steps)
    assert termination.step == 20
    assert "rank 1 stands at spawned.py:23 in train after collective" in termination.message


@pytest.mark.parametrize("how", ["group", "own"])
def test_a_rank_that_freezes_before_it_meets_the_others_is_found_and_named(how: str) -> None:
    want = "or a first all_reduce for 1 that did not come: rank 1 has not reached it"
    assert want in hung("freezes.py", how).message


def test_a_rank_that_freezes_when_the_others_are_done_is_found_too() -> None:
    """Within this time rank 0 has left, also on a busy machine; until then it counts as one that waits."""
    assert "rank 1 was stopped (SIGSTOP)" in hung("freezes.py", "end", timeout_s=20).message


SERVED = contract([1, 1], command=("python", "servers.py"), strategy="ParameterServer", servers=("s0", "s1"))


def test_two_pods_train_with_parameter_servers_in_two_others_and_a_killed_rank_comes_back_to_them() -> None:
    with PodSandbox(replace(SERVED, command=("python", "servers.py", "once")), PROGRAMS) as world:
        pods = world.start_all()
        codes = [pod.wait(START_S) for pod in pods]
        results = pods[0].termination().results
        logs = world.logs()
    assert codes == [0, 0, 0, 0], logs
    assert float(results["error"]) < 0.01
    assert "rank 1 was ended by SIGKILL" in logs


def test_a_lost_pod_of_a_server_ends_the_attempt_in_every_pod_as_the_platforms_fault() -> None:
    with PodSandbox(replace(SERVED, command=("python", "servers.py", "forever")), PROGRAMS) as world:
        head, other, lost, server = world.start_all()
        until(lambda: head.progress().step > 5, START_S, "training")
        lost.kill()
        codes = [pod.wait(60) for pod in (head, other, server)]
        terminations = [pod.termination() for pod in (head, other, server)]
        logs = world.logs()
    assert codes == [82, 82, 82], logs
    said = "the pod of parameter server 0 (s0) was lost: its connection ended"
    assert [each.message for each in terminations] == [said] * 3, logs


def test_a_wrong_token_is_refused_and_the_missing_pod_is_named() -> None:
    job = contract([1, 1], command=("python", "steps.py", "1", "1"), rendezvous_timeout_s=25)
    with PodSandbox(job, PROGRAMS) as world:
        head = world.start(0)
        stranger = world.start(1, token="0" * 64)
        codes = [head.wait(START_S), stranger.wait(START_S)]
        message = head.termination().message
        logs = world.logs()
    assert codes == [80, 80], logs
    assert message == "pod 1 (pod-1) did not join within 25 s"


def test_a_lost_pod_ends_the_attempt_as_the_platforms_fault() -> None:
    with PodSandbox(contract([1, 1], command=("python", "steps.py", "1000000", "20")), PROGRAMS) as world:
        head, other = world.start_all()
        until(lambda: head.progress().step > 0, START_S, "training")
        other.kill()
        code = head.wait(60)
        termination = head.termination()
        logs = world.logs()
    assert (code, termination.reason) == (82, "PeerLost"), logs
    assert termination.message.startswith("pod 1 (pod-1) was lost")


def test_a_lost_head_is_noticed_by_the_others() -> None:
    with PodSandbox(contract([1, 1], command=("python", "steps.py", "1000000", "20")), PROGRAMS) as world:
        head, other = world.start_all()
        until(lambda: head.progress().step > 0, START_S, "training")
        head.kill()
        code = other.wait(60)
        termination = other.termination()
        logs = world.logs()
    assert (code, termination.reason) == (82, "PeerLost"), logs


def test_a_killed_process_of_ray_does_not_disturb_healthy_ranks() -> None:
    with PodSandbox(contract([1, 1], command=("python", "steps.py", "400", "50")), PROGRAMS) as world:
        head, other = world.start_all()
        until(lambda: head.progress().step > 5, START_S, "training")
        for pod in (other, head):
            os.kill(pod.processes("ray::PodActor")[0], signal.SIGKILL)
        codes = [pod.wait(START_S) for pod in (head, other)]
        terminations = [pod.termination() for pod in (head, other)]
        logs = world.logs()
    assert codes == [0, 0], logs
    assert [each.reason for each in terminations] == ["Completed", "Completed"], logs
    assert logs.count("rank 0 of 2 starts at") == 1, logs


def test_an_elastic_world_shrinks_and_grows_again() -> None:
    with pod_sandbox.directory() as shared:
        job = contract(
            [1, 1],
            command=("python", "steps.py", "1000000", "20"),
            workers_min=1,
            checkpoint=CheckpointSpec(str(shared)),
            grace_s=20,
        )
        with PodSandbox(job, PROGRAMS) as world:
            head, other = world.start_all()
            until(lambda: head.progress().last_checkpoint_step, START_S, "training with two")
            other.kill()
            until(lambda: "rank 0 of 1 starts at" in head.log(), 60, "a world of one")
            world.start(1)
            until(lambda: head.log().count("rank 0 of 2 starts at") == 2, START_S, "a world of two again")
            assert head.process.poll() is None
