"""The life of a group of ranks, as a table of events and commands; time is given."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_worker.supervision.commands import Command, Finish, KillRanks, Resize, Start
from cotenant_worker.supervision.failure_cause import RankExit
from cotenant_worker.supervision.rank_error import RankError
from cotenant_worker.supervision.supervisor import WORKED_S, GroupState, Supervisor
from cotenant_worker.supervision.worker_group import RankAssignment
from tests.support.pod_sandbox import contract

PEER = ("RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:3333",)
MINE = ("ValueError: the learning rate is negative",)


def ended(rank: int, code: int | None = 0, *, at: float = 1.0, generation: int = 0, **fields: Any) -> RankExit:
    number = fields.pop("signal", None)
    return RankExit(rank, generation, None if number else code, number, at, **fields)


def running(pods: int = 2, **fields: Any) -> Supervisor:
    """A supervisor whose pods have all come, at time 0."""
    supervisor = Supervisor(replace(contract([1] * pods), **fields), 0.0)
    for pod in range(pods):
        supervisor.pod_ready(pod, f"10.0.0.{pod + 1}", 0.0)
    return supervisor


def members(*pods: int) -> tuple[RankAssignment, ...]:
    return tuple(RankAssignment(rank, pod, f"10.0.0.{pod + 1}", 0, pod) for rank, pod in enumerate(pods))


def test_ranks_start_once_every_pod_is_there() -> None:
    supervisor = Supervisor(contract([1, 1]), 0.0)
    assert supervisor.pod_ready(1, "10.0.0.2", 1.0) == []
    assert supervisor.pod_ready(0, "10.0.0.1", 2.0) == [Start(0, members(0, 1), 0)]


def test_a_failure_that_a_shell_hides_is_told_with_the_end() -> None:
    supervisor = running(1)
    error = RankError("ValueError", "bad batch", "train.py:3", 1.0, 9, 0.5, by_child=True)
    [finish] = supervisor.rank_exited(ended(0, error=error), 2.0)
    assert isinstance(finish, Finish)
    assert (finish.code, finish.reason) == (0, "Completed")
    assert finish.message == (
        "the program ended with 0; but a process of rank 0 had failed: ValueError: bad batch (train.py:3). A shell"
        " script that begins with 'set -eo pipefail', and waits for each process (wait $PID), ends with its code"
    )


@pytest.mark.parametrize(
    "exit_",
    [
        pytest.param(ended(0), id="nothing failed"),
        pytest.param(ended(0, error=RankError("E", "", "", 1.0, 9, 0.5)), id="the program went on after it"),
    ],
)
def test_an_end_without_a_hidden_failure_says_no_more(exit_: RankExit) -> None:
    assert running(1).rank_exited(exit_, 2.0) == [Finish(0, "Completed", "the program ended with 0")]


def test_a_pod_that_does_not_come_is_named() -> None:
    supervisor = Supervisor(contract([1, 1], rendezvous_timeout_s=60), 0.0)
    supervisor.pod_ready(0, "10.0.0.1", 1.0)
    assert supervisor.tick(60.0) == []
    assert supervisor.tick(60.1) == [
        Finish(80, "RendezvousTimeout", "pod 1 (pod-1) did not join within 60 s"),
    ]


def test_ranks_start_once_every_server_is_there_too_whoever_comes_last() -> None:
    job = contract([1], servers=("s0", "s1"))
    ranks_first, servers_first = Supervisor(job, 0.0), Supervisor(job, 0.0)
    assert ranks_first.pod_ready(0, "10.0.0.1", 1.0) + ranks_first.server_ready(1, 1.0) == []
    assert ranks_first.server_ready(0, 2.0) == [Start(0, members(0), 0)]
    assert servers_first.server_ready(0, 1.0) + servers_first.server_ready(1, 1.0) == []
    assert servers_first.pod_ready(0, "10.0.0.1", 2.0) == [Start(0, members(0), 0)]
    assert servers_first.server_ready(1, 3.0) == []  # said again by an actor that took another's place


def test_a_server_that_does_not_come_or_went_again_is_named() -> None:
    supervisor = Supervisor(contract([1], servers=("s0", "s1"), rendezvous_timeout_s=60), 0.0)
    supervisor.server_ready(1, 1.0)
    assert supervisor.server_lost(1, "its connection ended", 2.0) == []
    supervisor.pod_ready(0, "10.0.0.1", 3.0)
    message = "the pod of parameter server 0 (s0), the pod of parameter server 1 (s1) did not join within 60 s"
    assert supervisor.tick(61.0) == [Finish(80, "RendezvousTimeout", message)]


@pytest.mark.parametrize("workers_min", [0, 1], ids=["fixed", "elastic"])
def test_a_lost_server_ends_the_attempt_and_not_the_rank_that_noticed_it_first(workers_min: int) -> None:
    supervisor = Supervisor(contract([1], servers=("s0",), workers_min=workers_min), 0.0)
    supervisor.pod_ready(0, "10.0.0.1", 0.0)
    supervisor.server_ready(0, 0.0)
    assert supervisor.rank_exited(ended(0, 1, tail=("ConnectionResetError: closed by peer",)), 1.0) == []
    lost = "the pod of parameter server 0 (s0) was lost: its connection ended"
    assert supervisor.server_lost(0, "its connection ended", 2.0) == [KillRanks(0), Finish(82, "PeerLost", lost)]


def test_ranks_that_blame_a_server_that_stays_are_the_cause_themselves() -> None:
    supervisor = Supervisor(contract([1], servers=("s0",)), 0.0)
    supervisor.pod_ready(0, "10.0.0.1", 0.0)
    supervisor.server_ready(0, 0.0)
    assert supervisor.rank_exited(ended(0, 1, tail=("ConnectionResetError: closed by peer",)), 1.0) == []
    assert [type(command) for command in supervisor.tick(21.0)] == [KillRanks, Finish]


def test_the_end_of_all_ranks_is_the_end() -> None:
    supervisor = running()
    assert supervisor.rank_exited(ended(1), 1.0) == []
    assert supervisor.rank_exited(ended(0), 2.0) == [Finish(0, "Completed", "all 2 ranks ended with 0")]


def test_a_failure_stops_the_others_and_is_the_verdict() -> None:
    supervisor = running()
    assert supervisor.rank_exited(ended(1, 42, tail=MINE), 1.0) == []
    assert supervisor.tick(1.6) == [KillRanks(0)]
    message = "rank 1 ended with 42: ValueError: the learning rate is negative"
    assert supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 1.7) == [
        Finish(42, "UserError", message, 1, None, MINE, pod=1),
    ]


def test_a_killed_rank_starts_again_at_once_and_at_nobodys_expense() -> None:
    supervisor = running()
    assert supervisor.rank_exited(ended(1, signal=9), 1.0) == [KillRanks(0)]
    assert supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 1.1) == [
        Start(1, members(0, 1), 1, "rank 1 was ended by SIGKILL"),
    ]
    assert supervisor.kill_restarts == 1


@pytest.mark.parametrize(
    ("exit_", "after_s", "code", "reason"),
    [
        pytest.param({"tail": ("mkdir: cannot create 'out'",)}, 2.0, 82, "RestartFailed", id="before its first step"),
        pytest.param({"worked": True}, 2.0, 1, "UserError", id="after a step"),
        pytest.param({}, WORKED_S, 1, "UserError", id="after so long that it has worked unseen"),
        pytest.param({"oom": True, "tail": ("exit code -9",)}, 2.0, 1, "OutOfMemory", id="for want of memory"),
    ],
)
def test_ranks_that_cannot_start_again_in_place_start_again_in_new_pods(
    exit_: dict[str, Any], after_s: float, code: int, reason: str
) -> None:
    """A run script that begins with mkdir finds the folder of its first start: nobody's fault but the kill's."""
    supervisor = running(1)
    supervisor.rank_exited(ended(0, signal=9, worked=True), 1.0)
    finish = supervisor.rank_exited(ended(0, 1, generation=1, **exit_), 1.0 + after_s)[-1]
    assert isinstance(finish, Finish)
    assert (finish.code, finish.reason) == (code, reason)
    assert ("starts in new pods" in finish.message) is (code == 82)


def test_a_rank_that_is_killed_for_ever_ends_the_attempt_which_says_how_often() -> None:
    supervisor = running(1)
    found: list[Command] = []
    while not any(isinstance(each, Finish) for each in found):
        killed = ended(0, signal=9, generation=supervisor.generation)
        found = supervisor.rank_exited(replace(killed, worked=True), 1.0)
    message = "rank 0 was ended by SIGKILL; the ranks had been started again 20 times, each time that one was killed"
    assert found[-1] == Finish(137, "UserError", message, 0, 9, (), pod=0)


def test_a_crash_of_the_program_ends_the_attempt() -> None:
    supervisor = running(1)
    stop, finish = supervisor.rank_exited(ended(0, 1, tail=MINE), 1.0)
    assert stop == KillRanks(0)
    assert isinstance(finish, Finish)
    assert (finish.code, finish.rank, finish.message) == (
        1,
        0,
        "rank 0 ended with 1: ValueError: the learning rate is negative",
    )


def test_news_of_an_older_generation_changes_nothing() -> None:
    supervisor = running(1)
    supervisor.rank_exited(ended(0, signal=9), 1.0)
    assert supervisor.rank_exited(ended(0, 1, generation=0), 1.2) == []
    assert supervisor.state is GroupState.RUNNING


def test_what_is_told_twice_counts_once() -> None:
    """A pod repeats all events to a replacement actor."""
    supervisor = running()
    assert supervisor.rank_exited(ended(1), 1.0) == []
    assert supervisor.rank_exited(ended(1, 42, tail=MINE), 2.0) == []
    assert supervisor.pod_ready(1, "10.0.0.2", 3.0) == []
    assert supervisor.pod_lost(1, "gone", 4.0)
    assert supervisor.pod_lost(1, "gone", 5.0) == []


def test_failures_that_blame_a_peer_wait_for_the_peer() -> None:
    supervisor = running(3)
    assert supervisor.rank_exited(ended(0, 1, tail=PEER), 1.0) == []
    assert supervisor.tick(10.0) == []
    commands = supervisor.pod_lost(1, "ActorDiedError", 11.0)
    assert commands == [KillRanks(0)]
    assert supervisor.rank_exited(ended(2, None, signal=9, stopped=True), 11.1) == [
        Finish(82, "PeerLost", "pod 1 (pod-1) was lost: ActorDiedError"),
    ]


def test_an_elastic_world_goes_on_without_a_lost_pod_and_grows_when_it_is_back() -> None:
    supervisor = running(3, workers_min=2)
    assert supervisor.pod_lost(1, "gone", 5.0) == [KillRanks(0)]
    supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 5.1)
    assert supervisor.rank_exited(ended(2, None, signal=9, stopped=True), 5.2) == [
        Start(1, members(0, 2), 0, "pod 1 was lost (gone); the world shrinks"),
    ]
    assert supervisor.pod_ready(1, "10.0.0.2", 9.0) == [Resize()]
    supervisor.rank_exited(ended(0, 0, generation=1), 9.5)
    assert supervisor.rank_exited(ended(1, 0, generation=1), 9.6) == [
        Start(2, members(0, 1, 2), 0, "pod 1 joined; the world grows"),
    ]


def test_below_the_smallest_world_the_attempt_ends() -> None:
    supervisor = running(2, workers_min=2)
    supervisor.pod_lost(1, "gone", 5.0)
    [finish] = supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 5.1)
    assert isinstance(finish, Finish)
    assert finish.code == 82


def test_preemption_waits_for_the_ranks_and_then_ends_with_143() -> None:
    supervisor = running(2, grace_s=30)
    assert supervisor.preempt(5.0) == []
    assert supervisor.rank_exited(ended(0, 0), 6.0) == []
    [finish] = supervisor.rank_exited(ended(1, 1), 7.0)
    assert isinstance(finish, Finish)
    assert (finish.code, finish.reason) == (143, "Preempted")


def test_preemption_does_not_wait_beyond_the_grace_period() -> None:
    supervisor = running(2, grace_s=30)
    supervisor.preempt(5.0)
    assert supervisor.tick(30.0) == []
    [finish] = supervisor.tick(31.0)
    assert isinstance(finish, Finish)
    assert finish.code == 143


def test_preemption_before_the_start_ends_at_once() -> None:
    supervisor = Supervisor(contract([1, 1]), 0.0)
    [finish] = supervisor.preempt(1.0)
    assert isinstance(finish, Finish)
    assert finish.code == 143


def test_a_hang_is_a_failure_of_the_rank_that_did_not_come() -> None:
    supervisor = running(1)
    commands: list[Command] = supervisor.rank_hung(0, "collective 7 hangs", 5.0)
    assert commands == [KillRanks(0)]
    [finish] = supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 5.1)
    assert finish == Finish(1, "HungCollective", "collective 7 hangs", 0, pod=0)


def test_a_rank_that_left_with_0_before_the_others_met_it_left_too_early() -> None:
    supervisor = running()
    supervisor.rank_exited(ended(1), 1.0)
    supervisor.rank_hung(1, "rank 1 has ended before it", 40.0)
    [finish] = supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 40.1)
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.rank, finish.pod) == ("ExitedEarly", 1, 1)
    assert finish.message.startswith("rank 1 ended with 0 although others wait for it: rank 1 has ended before it. Ev")


def test_a_pod_that_fetches_its_data_is_waited_for_as_long_as_it_says_so() -> None:
    supervisor = Supervisor(contract([1, 1], rendezvous_timeout_s=60), 0.0)
    supervisor.pod_ready(0, "a", 1.0)
    supervisor.pod_staging(59.0)
    assert supervisor.tick(118.0) == []
    assert [type(one) for one in supervisor.tick(119.5)] == [Finish]


@pytest.mark.parametrize(
    ("worked", "between_s", "starts"),
    [
        pytest.param(False, 1.0, 2, id="it kills itself before it does anything"),
        pytest.param(True, 1.0, 21, id="it makes steps in between"),
        pytest.param(False, 700.0, 21, id="it runs for long, and nobody sees what it does"),
    ],
)
def test_a_program_that_is_killed_twice_before_its_first_step_is_the_cause(
    worked: bool, between_s: float, starts: int
) -> None:
    supervisor = running(1)
    now, found = 0.0, 1
    while supervisor.state is not GroupState.DONE:
        now += between_s
        killed = replace(ended(0, signal=9, generation=supervisor.generation), worked=worked)
        found += any(isinstance(each, Start) for each in supervisor.rank_exited(killed, now))
    assert found == starts
