"""The pods of parameter servers beside a group of one rank: real launchers as processes, no Ray, no root."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from cotenant.contract import CheckpointSpec, Contract, PodGrant
from cotenant_worker.host.procfs import descendants
from tests.support.pod_sandbox import contract, until
from tests.worker.processes import PROGRAMS, Started, address_of_its_own, launched

START_S = 120
"""Patience for a start on a busy machine."""


@dataclass
class Gang:
    """Rank 0's pod and those of its servers."""

    head: Started
    servers: list[Started]


def asked(*words: str, servers: int = 2, **fields: Any) -> Contract:
    """Host names are addresses here: there is no DNS."""
    job = contract([1], command=("python", "servers.py", *words), strategy="ParameterServer", **fields)
    return replace(
        job,
        pods=(PodGrant(address_of_its_own(), job.pods[0].ranks),),
        servers=tuple(address_of_its_own() for _ in range(servers)),
        platform={"codePath": str(PROGRAMS), **job.platform},
    )


@contextmanager
def together(directory: Path, job: Contract, *, absent: int | None = None) -> Iterator[Gang]:
    with ExitStack() as stack:
        pods = []
        for node_rank, host in enumerate([job.pods[0].host, *job.servers]):
            own = directory / str(node_rank)
            own.mkdir()
            if node_rank != absent:
                document = replace(job, node_rank=node_rank).to_json()
                pods.append(stack.enter_context(launched(own, document, host, RAY_AUTH_TOKEN="of this attempt")))
        yield Gang(pods[0], pods[1:])


def training(gang: Gang) -> None:
    until(lambda: gang.head.progress().step > 5, START_S, "training")


def server_process(pod: Started) -> int:
    """The server that this launcher started."""
    children = Path(f"/proc/{pod.process.pid}/task/{pod.process.pid}/children").read_text().split()
    (found,) = (pid for pid in children if "parameter_server" in Path(f"/proc/{pid}/cmdline").read_text())
    return int(found)


def kill_pod(pod: Started) -> None:
    """Kill all processes at once, as when the node dies: there is no PID namespace here that would do it."""
    for pid in [pod.process.pid, *descendants(pod.process.pid)]:
        with suppress(ProcessLookupError):  # it went with the one before
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("update", ["Synchronous", "Asynchronous"])
def test_servers_in_pods_of_their_own_serve_until_the_ranks_are_done_and_end_with_them(
    tmp_path: Path, update: str
) -> None:
    with together(tmp_path, asked(platform={"parameterServer": {"update": update}})) as gang:
        code, log, termination = gang.head.finish(START_S)
        servers = [pod.finish(START_S) for pod in gang.servers]
    assert code == 0, log
    assert float(termination.results["error"]) < 0.01
    assert [(code, termination.reason, termination.node_rank) for code, _, termination in servers] == [
        (0, "Completed", 1),
        (0, "Completed", 2),
    ]


def test_ranks_that_start_again_in_place_find_servers_that_begin_anew(tmp_path: Path) -> None:
    with together(tmp_path, asked("once")) as gang:
        code, log, termination = gang.head.finish(START_S)
    assert code == 0, log
    assert "starting the ranks again" in log
    assert float(termination.results["error"]) < 0.01


def test_a_programs_failure_is_the_servers_code_too_and_they_name_the_pod_of_its_rank(tmp_path: Path) -> None:
    job = replace(asked(), command=("python", "behave.py", "exit", "42"))
    with together(tmp_path, job) as gang:
        ended = [pod.finish(START_S) for pod in (gang.head, *gang.servers)]
    assert [(code, termination.rank, termination.pod) for code, _, termination in ended] == [(42, 0, 0)] * 3


def test_a_killed_server_ends_the_attempt_as_the_platforms_fault_and_every_pod_says_which(tmp_path: Path) -> None:
    with together(tmp_path, asked("forever")) as gang:
        training(gang)
        os.kill(server_process(gang.servers[1]), signal.SIGKILL)
        ended = [pod.finish(START_S) for pod in (gang.head, *gang.servers)]
    why = "the process of parameter server 1 was killed by SIGKILL"
    assert [(code, termination.reason) for code, _, termination in ended] == [(82, "PeerLost")] * 3
    assert ended[2][2].message == why
    assert [termination.message.endswith(f"was lost: {why}") for _, _, termination in ended[:2]] == [True, True]


def test_a_server_that_is_stopped_and_never_goes_on_ends_the_attempt(tmp_path: Path) -> None:
    with together(tmp_path, asked("forever")) as gang:
        training(gang)
        os.kill(server_process(gang.servers[1]), signal.SIGSTOP)
        ended = [pod.finish(START_S) for pod in (gang.head, *gang.servers)]
    assert [(code, termination.reason) for code, _, termination in ended] == [(82, "PeerLost")] * 3
    assert "the process of parameter server 1 was stopped (SIGSTOP)" in ended[0][2].message


def test_a_lost_pod_of_a_server_ends_the_attempt(tmp_path: Path) -> None:
    job = asked("forever")
    with together(tmp_path, job) as gang:
        training(gang)
        kill_pod(gang.servers[0])
        ended = [pod.finish(START_S) for pod in (gang.head, gang.servers[1])]
    why = f"the pod of parameter server 0 ({job.servers[0]}) was lost: its connection ended"
    assert [(code, termination.reason, termination.message) for code, _, termination in ended] == [
        (82, "PeerLost", why)
    ] * 2


def test_servers_notice_that_rank_0s_pod_is_gone(tmp_path: Path) -> None:
    job = asked("forever")
    with together(tmp_path, job) as gang:
        training(gang)
        kill_pod(gang.head)
        ended = [pod.finish(START_S) for pod in gang.servers]
    assert [(code, termination.message) for code, _, termination in ended] == [
        (82, f"the pod of rank 0, {job.pods[0].host}, is gone")
    ] * 2


def test_a_server_that_does_not_come_is_named(tmp_path: Path) -> None:
    job = asked(rendezvous_timeout_s=5)
    with together(tmp_path, job, absent=2) as gang:
        code, _, termination = gang.head.finish(START_S)
        assert gang.servers[0].finish(START_S)[0] == 80
    assert (code, termination.reason) == (80, "RendezvousTimeout")
    assert termination.message == f"the pod of parameter server 1 ({job.servers[1]}) did not join within 5 s"


def test_a_server_alone_says_whom_it_waited_for(tmp_path: Path) -> None:
    job = asked(servers=1, rendezvous_timeout_s=1)
    with launched(tmp_path, replace(job, node_rank=1).to_json(), job.servers[0], RAY_AUTH_TOKEN="x") as pod:
        code, _, termination = pod.finish(START_S)
    assert (code, termination.reason) == (80, "RendezvousTimeout")
    assert termination.message == f"the pod of rank 0, {job.pods[0].host}, did not answer within 1 s"


@pytest.mark.parametrize("asked_first", ["server", "ranks"])
def test_whoever_is_asked_to_stop_first_the_ranks_save_and_all_leave(tmp_path: Path, asked_first: str) -> None:
    shared = tmp_path / "checkpoints"
    with together(tmp_path, asked("forever", checkpoint=CheckpointSpec(str(shared)), grace_s=30)) as gang:
        training(gang)
        pod = gang.head if asked_first == "ranks" else gang.servers[1]
        pod.process.send_signal(signal.SIGTERM)
        ended = [pod.finish(START_S) for pod in (gang.head, *gang.servers)]
    assert [(code, termination.reason) for code, _, termination in ended] == [(143, "Preempted")] * 3, ended
    assert ended[0][2].last_checkpoint_step, ended[0][1]


def test_a_server_without_the_attempts_token_says_what_is_missing(tmp_path: Path) -> None:
    with launched(tmp_path, replace(asked(), node_rank=1).to_json()) as pod:
        code, log, termination = pod.finish(START_S)
    assert (code, termination.reason) == (84, "BadContract")
    assert "RAY_AUTH_TOKEN is not set" in log
