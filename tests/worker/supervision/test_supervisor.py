"""The life of a world of ranks, as a table of events and commands; time is given."""

import signal
from dataclasses import replace
from typing import Any

import pytest

from cotenant_worker.messaging.shared_counters import common_stop_call
from cotenant_worker.supervision.commands import Command, Finish, Save, Start, Stop
from cotenant_worker.supervision.failure_cause import Cause, RankExit, first_cause, own_code, why_lost
from cotenant_worker.supervision.hangs import (
    RankHeartbeat,
    find_hang,
    find_missing_rendezvous,
    rank_to_blame,
    timeout_for,
)
from cotenant_worker.supervision.supervisor import GroupState, Supervisor
from cotenant_worker.supervision.worker_group import RankAssignment
from tests.support.pod_sandbox import contract

PEER = ("RuntimeError: [gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:3333",)
MET = "I0000 00:00:1795310370.346921 88 coordination_service_agent.cc:245] Coordination agent has connected."
JAX_LOST = (
    "F1122 client.h:80] Terminating process because the JAX distributed service detected fatal errors.",
    "    @     0x7faae5d0c93b  xla::CoordinationServiceAgent::SetError()",
    "Fatal Python error: Aborted",
    "",
    "Thread 0x00007faaf1a73b80 (most recent call first):",
    '  File "/usr/lib/python3/dist-packages/jax/_src/array.py", line 300 in __float__',
    '  File "train.py", line 38 in <module>',
)
JAX_WAITED = (
    *JAX_LOST[:5],
    '  File "/usr/lib/python3/dist-packages/jax/_src/distributed.py", line 199 in shutdown',
    '  File "/usr/lib/python3/dist-packages/jax/_src/api.py", line 2582 in clean_up',
)
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
    said = "the pod of parameter server 0 (s0), the pod of parameter server 1 (s1) did not join within 60 s"
    assert supervisor.tick(61.0) == [Finish(80, "RendezvousTimeout", said)]


@pytest.mark.parametrize("workers_min", [0, 1], ids=["fixed", "elastic"])
def test_a_lost_server_ends_the_attempt_and_not_the_rank_that_noticed_it_first(workers_min: int) -> None:
    supervisor = Supervisor(contract([1], servers=("s0",), workers_min=workers_min), 0.0)
    supervisor.pod_ready(0, "10.0.0.1", 0.0)
    supervisor.server_ready(0, 0.0)
    assert supervisor.rank_exited(ended(0, 1, tail=("ConnectionResetError: closed by peer",)), 1.0) == []
    lost = "the pod of parameter server 0 (s0) was lost: its connection ended"
    assert supervisor.server_lost(0, "its connection ended", 2.0) == [Stop(0), Finish(82, "PeerLost", lost)]


def test_ranks_that_blame_a_server_that_stays_are_the_cause_themselves() -> None:
    supervisor = Supervisor(contract([1], servers=("s0",)), 0.0)
    supervisor.pod_ready(0, "10.0.0.1", 0.0)
    supervisor.server_ready(0, 0.0)
    assert supervisor.rank_exited(ended(0, 1, tail=("ConnectionResetError: closed by peer",)), 1.0) == []
    assert [type(command) for command in supervisor.tick(21.0)] == [Stop, Finish]


def test_the_end_of_all_ranks_is_the_end() -> None:
    supervisor = running()
    assert supervisor.rank_exited(ended(1), 1.0) == []
    assert supervisor.rank_exited(ended(0), 2.0) == [Finish(0, "Completed", "all 2 ranks ended with 0")]


def test_a_failure_stops_the_others_and_is_the_verdict() -> None:
    supervisor = running()
    assert supervisor.rank_exited(ended(1, 42, tail=MINE), 1.0) == []
    assert supervisor.tick(1.6) == [Stop(0)]
    message = "rank 1 ended with 42: ValueError: the learning rate is negative"
    assert supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 1.7) == [
        Finish(42, "UserError", message, 1, None, MINE, pod=1),
    ]


def test_a_killed_rank_starts_again_at_once_and_at_nobodys_expense() -> None:
    supervisor = running()
    assert supervisor.rank_exited(ended(1, signal=9), 1.0) == [Stop(0)]
    assert supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 1.1) == [
        Start(1, members(0, 1), 1, "rank 1 was ended by SIGKILL"),
    ]
    assert supervisor.kill_restarts == 1


def test_a_rank_that_is_killed_for_ever_ends_the_attempt_which_says_how_often() -> None:
    supervisor = running(1)
    found: list[Command] = []
    while not any(isinstance(each, Finish) for each in found):
        found = supervisor.rank_exited(ended(0, signal=9, generation=supervisor.generation), 1.0)
    said = "rank 0 was ended by SIGKILL; the ranks had been started again 20 times, each time that one was killed"
    assert found[-1] == Finish(137, "UserError", said, 0, 9, (), pod=0)


def test_a_crash_of_the_program_ends_the_attempt() -> None:
    supervisor = running(1)
    stop, finish = supervisor.rank_exited(ended(0, 1, tail=MINE), 1.0)
    assert stop == Stop(0)
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
    """A pod says everything again to an actor that takes another's place."""
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
    assert commands == [Stop(0)]
    assert supervisor.rank_exited(ended(2, None, signal=9, stopped=True), 11.1) == [
        Finish(82, "PeerLost", "pod 1 (pod-1) was lost: ActorDiedError"),
    ]


def test_an_elastic_world_goes_on_without_a_lost_pod_and_grows_when_it_is_back() -> None:
    supervisor = running(3, workers_min=2)
    assert supervisor.pod_lost(1, "gone", 5.0) == [Stop(0)]
    supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 5.1)
    assert supervisor.rank_exited(ended(2, None, signal=9, stopped=True), 5.2) == [
        Start(1, members(0, 2), 0, "pod 1 was lost (gone); the world shrinks"),
    ]
    assert supervisor.pod_ready(1, "10.0.0.2", 9.0) == [Save(1)]
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


def test_a_rank_that_waited_in_vain_at_its_end_is_told_with_where_another_was() -> None:
    exits = [ended(0, signal=6, tail=JAX_LOST), ended(1, signal=6, at=0.9, tail=JAX_WAITED)]
    said = first_cause(exits).message
    assert said.startswith("rank 1 came to its end while rank 0 was still at train.py:38, and waited there in jax.")


def test_preemption_before_the_start_ends_at_once() -> None:
    supervisor = Supervisor(contract([1, 1]), 0.0)
    [finish] = supervisor.preempt(1.0)
    assert isinstance(finish, Finish)
    assert finish.code == 143


def test_a_hang_is_a_failure_of_the_rank_that_did_not_come() -> None:
    supervisor = running(1)
    commands: list[Command] = supervisor.rank_hung(0, "collective 7 hangs", 5.0)
    assert commands == [Stop(0)]
    [finish] = supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 5.1)
    assert finish == Finish(1, "HungCollective", "collective 7 hangs", 0, pod=0)


@pytest.mark.parametrize(
    ("exits", "want"),
    [
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 3, at=1.2, tail=MINE)], ("UserError", 1, 3), id="not who blames"
        ),
        pytest.param([ended(0, 1, tail=MINE), ended(1, signal=11, at=1.3)], ("UserError", 1, 139), id="signals first"),
        pytest.param([ended(0, 1, tail=MINE), ended(1, 2, at=0.9, tail=MINE)], ("UserError", 1, 2), id="the earliest"),
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 0, at=0.5)], ("ExitedEarly", 1, 1), id="who left with 0 too early"
        ),
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 0, at=1.5)], ("ExitedEarly", 1, 1), id="even when that is told later"
        ),
        pytest.param(
            [ended(0, 1, tail=PEER), ended(1, 1, at=1.2, tail=(MET, *MINE))],
            ("UserError", 1, 1),
            id="who said that all went well is no victim",
        ),
        pytest.param(
            [ended(0, signal=6, tail=JAX_LOST), ended(1, signal=6, at=0.9, tail=JAX_WAITED)],
            ("ExitedEarly", 1, 1),
            id="whom JAX let wait at its end, in vain",
        ),
        pytest.param(
            [ended(0, signal=9), ended(1, signal=6, at=0.9, tail=JAX_WAITED)],
            ("UserError", 0, 137),
            id="not who waited for one that was killed",
        ),
        pytest.param(
            [ended(0, None, signal=9, oom=True)], ("OutOfMemory", 0, 137), id="the kernel's out-of-memory kill"
        ),
        pytest.param(
            [ended(0, 1, oom=True, tail=("RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",))],
            ("OutOfMemory", 0, 1),
            id="the kernel's kill of a child",
        ),
        pytest.param(
            [ended(0, 1, oom=True, tail=("AssertionError: child ended with -9",))],
            ("OutOfMemory", 0, 1),
            id="the kernel's kill of a child whose code is told",
        ),
        pytest.param([ended(0, 1, oom=True, tail=MINE)], ("UserError", 0, 1), id="a kill that the program survived"),
        pytest.param(
            [ended(0, 1, tail=("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",))],
            ("OutOfGPUMemory", 0, 1),
            id="its share of GPU memory",
        ),
        pytest.param(
            [ended(0, 83, tail=("cotenant: the GPU memory limit could not be set: x",))], ("Quota", 0, 83), id="limit"
        ),
        pytest.param(
            [ended(0, 83, tail=("mine",))], ("UserError", 0, 79), id="a user's code that would look like ours"
        ),
        pytest.param([ended(0, 1, tail=PEER), ended(1, 1, at=1.1, tail=PEER)], ("UserError", 0, 1), id="all blame"),
    ],
)
def test_the_verdict_names_the_first_cause(exits: list[RankExit], want: tuple[str, int, int]) -> None:
    cause: Cause = first_cause(exits)
    assert (cause.reason, cause.rank, cause.code) == want


def test_where_gpu_memory_ran_out_is_said() -> None:
    tail = ("Traceback (most recent call last):", '  File "train.py", line 8, in step', "    loss.backward()")
    cause = first_cause([ended(1, 1, tail=(*tail, "torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"))])
    assert cause.message.endswith("torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB (train.py:8, in step)")


def test_an_out_of_memory_kill_is_not_taken_for_a_kill_from_outside() -> None:
    assert not first_cause([ended(0, None, signal=signal.SIGKILL, oom=True)]).killed
    assert first_cause([ended(0, None, signal=signal.SIGKILL)]).killed


def test_no_exit_code_of_a_program_means_something_of_ours() -> None:
    assert [own_code(code) for code in (0, 1, 42, 79, 80, 84, 85, 137, 143)] == [0, 1, 42, 79, 79, 79, 85, 137, 79]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "The actor died unexpectedly before finishing this task.\n\tclass_name: PodActor\n\tactor_id: ab\n"
            "The actor is dead because its node has died. Node Id: 12ab\n\tthe actor's node was terminated",
            "its node has died",
            id="a clause of Ray's",
        ),
        pytest.param("The actor is temporarily unavailable\nmore", "The actor is temporarily unavailable", id="a line"),
        pytest.param("", "Ray does not say why", id="nothing"),
    ],
)
def test_what_ray_says_about_a_lost_pod_becomes_a_clause(text: str, want: str) -> None:
    assert why_lost(text) == want


def beat(rank: int, sequence: int, *, moved: float = 0.0, seen: float = 100.0, where: str = "") -> RankHeartbeat:
    return RankHeartbeat(rank, 0, sequence, where, seen, moved)


@pytest.mark.parametrize(
    ("beats", "left", "want"),
    [
        pytest.param([beat(0, 5), beat(1, 5)], (), None, id="all in the same collective: nobody is missing"),
        pytest.param([beat(0, 5, moved=90), beat(1, 4)], (), None, id="not long enough"),
        pytest.param([beat(0, -1), beat(1, -1)], (), None, id="collectives that cannot be counted"),
        pytest.param(
            [beat(0, 5), beat(1, 4, where="train.py:12 in load")],
            (),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come:"
            " rank 1 stands at train.py:12 in load after collective 4",
            id="who did not come, and where it stands",
        ),
        pytest.param(
            [beat(0, 5), beat(1, 4, seen=40)],
            (),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come:"
            " rank 1 has not been heard of for 60 s (last at collective 4)",
            id="who is frozen",
        ),
        pytest.param(
            [beat(0, 5), beat(1, 5, seen=40)],
            (),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come:"
            " rank 1 has not been heard of for 60 s (last at collective 5)",
            id="who is frozen inside the collective",
        ),
        pytest.param(
            [beat(0, 2), beat(1, -1, seen=40)],
            (),
            "1 rank(s) have waited 100 s in collective 2 for 1 that did not come:"
            " rank 1 has not been heard of for 60 s (not since it started)",
            id="who froze before it counted its first",
        ),
        pytest.param([beat(0, 2), beat(1, -1)], (), None, id="one that counts none and lives is not waited for"),
        pytest.param([beat(0, 5, seen=40), beat(1, 5, seen=40)], (), None, id="all silent: it is not the ranks"),
        pytest.param(
            [beat(0, 5), beat(1, 4)],
            (1,),
            "1 rank(s) have waited 100 s in collective 5 for 1 that did not come: rank 1 has ended after collective 4",
            id="who has left",
        ),
        pytest.param([beat(0, 5), beat(1, 4)], (0,), None, id="the ones ahead have left: nobody waits"),
        pytest.param(
            [replace(beat(0, 1), rendezvoused=True)],
            (),
            "1 rank(s) have waited 100 s in collective 1 for 1 that did not come:"
            " rank 1 has not been heard of for 100 s (not since it started)",
            id="who froze before its first beat",
        ),
        pytest.param([beat(0, 1)], (), None, id="one that says no beats, in a job whose ranks never met"),
        pytest.param([replace(beat(0, 1), rendezvoused=True)], (1,), None, id="one that left before its first beat"),
    ],
)
def test_a_hanging_collective_names_who_is_missing(
    beats: list[RankHeartbeat], left: tuple[int, ...], want: str | None
) -> None:
    found = find_hang(beats, range(2), left, 100.0, 30.0)
    assert (found.message if found else None) == want


def meeting(
    rank: int, entered: int = 1, *, inside: bool = True, seen: float = 99.0, moved: float = 60.0
) -> RankHeartbeat:
    return RankHeartbeat(rank, 0, -1 if inside else 7, "train.py:9 in main", seen, moved, entered, inside)


WAITED = (
    "rank(s) have waited 40 s in init_process_group, jax.distributed.initialize or a first all_reduce for 1 that did"
    " not come"
)


@pytest.mark.parametrize(
    ("beats", "left", "want"),
    [
        pytest.param([], (), None, id="all are loading: nobody waits"),
        pytest.param([meeting(0), meeting(1, moved=80)], (), None, id="the last came not long ago"),
        pytest.param([meeting(0), meeting(1), meeting(2)], (), None, id="all are there: torch is at work"),
        pytest.param([meeting(rank, inside=False) for rank in range(3)], (), None, id="all have been there"),
        pytest.param(
            [meeting(0), meeting(2)],
            (),
            f"2 {WAITED}: rank 1 has not reached it since it started",
            id="one never came",
        ),
        pytest.param(
            [meeting(0), meeting(2)], (1,), f"2 {WAITED}: rank 1 has ended before it", id="one ended with 0 before"
        ),
        pytest.param(
            [meeting(0), meeting(1), meeting(2, seen=61.0)],
            (),
            f"2 {WAITED}: rank 2 has not been heard of for 39 s",
            id="one froze inside",
        ),
        pytest.param(
            [meeting(0, 2), meeting(1, 1, inside=False), meeting(2, 2)],
            (),
            f"2 {WAITED}: rank 1 stands at train.py:9 in main",
            id="one did not come to the second meeting",
        ),
    ],
)
def test_a_meeting_before_the_first_collective_names_who_is_missing(
    beats: list[RankHeartbeat], left: tuple[int, ...], want: str | None
) -> None:
    found = find_missing_rendezvous(beats, range(3), left, 100.0, 30.0)
    assert (found.message if found else None) == want


def test_a_rank_that_has_left_is_named_and_not_waited_for_as_long_as_one_that_may_come() -> None:
    absent = find_missing_rendezvous([meeting(0)], range(3), (2,), 100.0, 30.0)
    assert absent
    assert (absent.missing, rank_to_blame(absent, (2,)), timeout_for(absent, (2,), 600.0)) == ((1, 2), 2, 30.0)
    assert (rank_to_blame(absent, ()), timeout_for(absent, (), 600.0)) == (1, 600.0)
    behind = find_hang([beat(0, 5), beat(1, 4)], range(2), (1,), 100.0, 30.0)
    assert behind
    assert timeout_for(behind, (1,), 600.0) == 600.0, "rank 0 may be alone in a group of its own"


def test_a_rank_that_left_with_0_before_the_others_met_it_left_too_early() -> None:
    supervisor = running()
    supervisor.rank_exited(ended(1), 1.0)
    supervisor.rank_hung(1, "rank 1 has ended before it", 40.0)
    [finish] = supervisor.rank_exited(ended(0, None, signal=9, stopped=True), 40.1)
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.rank, finish.pod) == ("ExitedEarly", 1, 1)
    assert finish.message.startswith("rank 1 ended with 0 although others wait for it: rank 1 has ended before it. Ev")


def test_all_ranks_stop_at_a_safe_point_that_none_can_have_passed() -> None:
    assert common_stop_call([10, 11], rate=0.1) == 12
    assert common_stop_call([1000, 1001], rate=200.0) == 1102
