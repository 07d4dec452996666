"""Deletions by growing force: which step comes when, and that every eviction ends. Pure: the clock is an argument."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.informers.pods.pod_record import DeletionRequest, Exit, PodRecord
from cotenant.controller.lifecycle import status_transitions
from cotenant.controller.lifecycle.observation import Observation, ReconcileResult
from cotenant.controller.lifecycle.pod_deletion import (
    CONFIRM_S,
    KILL_AFTER_S,
    PodsToEnd,
    named,
    pods_to_end,
)
from cotenant.controller.lifecycle.reconcile import reconcile, reconcile_orphans
from cotenant.controller.lifecycle.termination import UNREACHABLE_S, is_unconfirmed
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase
from tests.controller.builders import T0, admitted, exited, observed, pod
from tests.support.reconcile_cases import ONE, TWO

TEN_MINUTES = Settings(max_grace_period_s=600)
YEARS = 100_000_000


def asked(grace_s: int, *, at: float = T0, rank: int = 0, own_s: int = 30, end: Exit | None = None) -> PodRecord:
    """A pod that somebody has asked to end."""
    request = DeletionRequest(asked_at=at, grace_s=grace_s)
    return replace(pod(rank, deleting=True, end=end), deletion=request, grace_s=own_s)


@pytest.mark.parametrize(
    ("one", "after_s", "steps", "next_after_s"),
    [
        (asked(30), 59, [], 60),
        (asked(30), 60, [(1, "GracePeriodOver")], None),
        (asked(1), 60, [], None),
        (asked(600), 60, [], 630),
        (asked(600), 629, [], 630),
        (asked(600), 630, [(1, "GracePeriodOver")], None),
        (asked(601), 0, [(30, "GracePeriodShortened")], 60),
        (asked(YEARS), 0, [(30, "GracePeriodShortened")], 60),
        (asked(YEARS), 59, [(30, "GracePeriodShortened")], 60),
        (asked(YEARS), 60, [(1, "GracePeriodOver")], None),
        (asked(YEARS, own_s=YEARS), 0, [(600, "GracePeriodShortened")], 630),
        (asked(YEARS, own_s=YEARS), 630, [(1, "GracePeriodOver")], None),
        (asked(YEARS, end=exited(0)), 9999, [], None),
        (pod(), 9999, [], None),
    ],
    ids=[
        "its time is not over", "its time is over", "killed before", "as long as is allowed", "and not over",
        "and over", "a second too long", "years", "years, just in time", "years, too late for a shorter one",
        "years by its own spec", "and over as well", "it has ended", "nobody asked it to end",
    ],
)  # fmt: skip
def test_a_step_and_its_time(
    one: PodRecord, after_s: float, steps: list[tuple[int, str]], next_after_s: float | None
) -> None:
    found = pods_to_end([one], T0 + after_s, TEN_MINUTES)
    assert [(again.grace_s, again.event.reason) for again in found.forced] == steps
    assert found.next_at == (None if next_after_s is None else T0 + next_after_s)


def test_each_step_names_its_pods_their_nodes_and_what_was_asked_for() -> None:
    pods = [asked(YEARS, rank=rank) for rank in range(5)]
    (step,) = pods_to_end(pods, T0, TEN_MINUTES).forced
    assert step.event.message == (
        "pod train-1-0 on node n1, pod train-1-1 on node n1, pod train-1-2 on node n1 and 2 more was asked to end with"
        " a grace period of 100000000 s, and the most in this cluster is 10m: it has 30s"
    )
    assert step.event.warning
    (step,) = pods_to_end([asked(30)], T0 + 60, TEN_MINUTES).forced
    assert step.event.warning
    assert step.event.message == "pod train-1-0 on node n1 has not ended 30 s after its grace period, and is killed"


def test_pods_of_different_jobs_own_grace_periods_are_shortened_to_each() -> None:
    found = pods_to_end([asked(YEARS, own_s=20), asked(YEARS, rank=1, own_s=5)], T0, TEN_MINUTES)
    assert [([one.name for one in step.pods], step.grace_s) for step in found.forced] == [
        (["train-1-1"], 5),
        (["train-1-0"], 20),
    ]


def test_nothing_is_asked_of_no_pods() -> None:
    assert pods_to_end([], T0, TEN_MINUTES) == PodsToEnd()


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING, Phase.EVICTING])
def test_a_delete_with_a_huge_grace_period_is_shortened_in_every_phase(phase: Phase) -> None:
    result = reconcile(observed(admitted(phase, *ONE), asked(YEARS), now=T0 + 59), TEN_MINUTES)
    assert [(step.grace_s, step.pods[0].name) for step in result.forced_deletions] == [(30, "train-1-0")]
    assert result.requeue_at == T0 + 60


def test_pods_of_a_job_that_is_being_deleted_are_ended_and_its_status_is_left_alone() -> None:
    result = reconcile(observed(admitted(Phase.RUNNING, *ONE), asked(30), now=T0 + 60, deleting=True), TEN_MINUTES)
    assert (result.status, [step.grace_s for step in result.forced_deletions]) == (None, [1])


def test_pods_of_a_job_that_is_gone_are_ended_by_the_same_steps() -> None:
    pods = (asked(YEARS), pod(1), asked(30, rank=2, at=T0 - 60))
    result = reconcile_orphans(pods, T0, TEN_MINUTES)
    assert [one.name for one in result.delete_pods] == ["train-1-1"]
    assert [(step.grace_s, step.pods[0].name) for step in result.forced_deletions] == [
        (30, "train-1-0"),
        (1, "train-1-2"),
    ]
    assert result.requeue_at == T0 + 60


def overdue_condition(result: ReconcileResult) -> tuple[str, str, str] | None:
    found = [one for one in result.status.conditions if one.type == "TerminationOverdue"] if result.status else []
    return (found[0].status, found[0].reason, found[0].message) if found else None


def test_a_pod_beyond_its_time_is_in_a_condition_of_its_job_until_it_has_ended() -> None:
    status = admitted(Phase.EVICTING, *ONE)
    late = reconcile(observed(status, asked(30), now=T0 + 60), TEN_MINUTES)
    assert overdue_condition(late) == (
        "True",
        "PodsDoNotEnd",
        "pod train-1-0 on node n1 should have ended, and has not; its GPUs stay taken until its node reports"
        " that it has",
    )
    assert late.status is not None
    again = reconcile(observed(late.status, asked(1), now=T0 + 61), TEN_MINUTES)
    assert (again.status, again.forced_deletions, again.requeue_at) == (None, (), T0 + 60 + CONFIRM_S)
    over = reconcile(observed(late.status, now=T0 + 70), TEN_MINUTES)
    assert overdue_condition(over) == ("False", "PodsEnded", "all pods that were asked to end have ended")
    assert over.status is not None
    assert over.status.phase is Phase.PENDING


def test_one_node_that_does_not_answer_does_not_explain_the_pods_of_another() -> None:
    pods = (asked(30), replace(asked(30, rank=1), node="n2"))
    o = observed(admitted(Phase.EVICTING, *TWO), *pods, now=T0 + 60, unreachable_nodes={"n1": T0})
    found = overdue_condition(reconcile(o, TEN_MINUTES))
    assert found is not None
    assert found[:2] == ("True", "PodsDoNotEnd")


def test_pods_are_looked_at_again_at_the_first_of_their_times() -> None:
    assert pods_to_end([asked(30), asked(40, rank=1)], T0, TEN_MINUTES).next_at == T0 + 60


def test_the_longest_grace_period_of_those_that_are_shortened_together_is_named() -> None:
    (step,) = pods_to_end([asked(700), asked(800, rank=1)], T0, TEN_MINUTES).forced
    assert step.event.message == (
        "pod train-1-0 on node n1, pod train-1-1 on node n1 was asked to end with a grace period of 800 s, and the most"
        " in this cluster is 10m: it has 30s"
    )


@pytest.mark.parametrize(("pods", "more"), [(3, ""), (4, " and 1 more")])
def test_three_pods_are_named_and_the_others_counted(pods: int, more: str) -> None:
    first = "pod train-1-0 on node n1, pod train-1-1 on node n1, pod train-1-2 on node n1"
    assert named([pod(rank) for rank in range(pods)]) == first + more


@pytest.mark.parametrize(("after_s", "unconfirmed"), [(129, False), (130, False), (131, True)])
def test_a_pod_that_was_killed_later_than_others_has_its_own_time(after_s: int, unconfirmed: bool) -> None:
    late = reconcile(observed(admitted(Phase.EVICTING, *ONE), asked(30), now=T0 + 60), TEN_MINUTES)
    assert late.status is not None
    killed = asked(1, at=T0 + 100)
    assert is_unconfirmed(observed(late.status, killed, now=T0 + after_s), killed) is unconfirmed


def test_the_condition_says_where_it_is_the_node_that_does_not_answer() -> None:
    o = observed(admitted(Phase.EVICTING, *ONE), asked(30), now=T0 + 60, unreachable_nodes={"n1": T0})
    found = overdue_condition(reconcile(o, TEN_MINUTES))
    assert found is not None
    assert found[:2] == ("True", "NodeNotReady")


def test_a_node_that_never_confirms_does_not_hold_the_job_and_the_event_names_what_stays_taken() -> None:
    late = reconcile(observed(admitted(Phase.EVICTING, *ONE), asked(30), now=T0 + 60), TEN_MINUTES)
    assert late.status is not None
    waits = reconcile(observed(late.status, asked(1), now=T0 + 60 + CONFIRM_S - 1), TEN_MINUTES)
    assert waits.status is None
    left = reconcile(observed(late.status, asked(1), now=T0 + 60 + CONFIRM_S), TEN_MINUTES)
    assert left.status is not None
    assert left.event is not None
    assert (left.status.phase, left.status.placement) == (Phase.PENDING, None)
    assert (left.event.warning, left.event.message) == (
        True,
        "the job waits again; pod train-1-0 on node n1 may still run: its GPUs stay taken until its node reports"
        " that it has ended",
    )


def test_the_next_attempt_does_not_wait_for_a_pod_that_its_node_never_ended() -> None:
    late = reconcile(observed(admitted(Phase.EVICTING, *ONE), asked(30), now=T0 + 60), TEN_MINUTES)
    assert late.status is not None
    kept = tuple(one for one in late.status.conditions if one.type == status_transitions.OVERDUE)
    starting = admitted(Phase.STARTING, ("n2", 1), attempts=2, conditions=kept)
    early = reconcile(observed(starting, asked(1), now=T0 + 60 + CONFIRM_S - 1), TEN_MINUTES)
    late_enough = reconcile(observed(starting, asked(1), now=T0 + 60 + CONFIRM_S), TEN_MINUTES)
    assert (early.create_pods, late_enough.create_pods) == (False, True)


def test_the_next_attempt_is_placed_anew_if_it_was_given_the_gpus_of_a_pod_that_its_node_never_ended() -> None:
    late = reconcile(observed(admitted(Phase.EVICTING, *ONE), asked(30), now=T0 + 60), TEN_MINUTES)
    assert late.status is not None
    kept = tuple(one for one in late.status.conditions if one.type == status_transitions.OVERDUE)
    starting = admitted(Phase.STARTING, *ONE, ("n2", 1), attempts=2, conditions=kept)
    early = reconcile(observed(starting, asked(1), now=T0 + 60 + CONFIRM_S - 1), TEN_MINUTES)
    assert (early.create_pods, early.status) == (False, None)
    left = reconcile(observed(starting, asked(1), now=T0 + 60 + CONFIRM_S), TEN_MINUTES)
    assert left.status is not None
    assert (left.create_pods, left.status.phase, left.status.message) == (
        False,
        Phase.EVICTING,
        "pod train-1-0 on node n1 of the attempt before does not end, and uses GPUs of this one; the job is placed"
        " anew",
    )


def test_no_pod_is_made_on_gpus_of_a_pod_whose_node_does_not_answer() -> None:
    starting = admitted(Phase.STARTING, *ONE, attempts=2)
    o = observed(starting, asked(1), now=T0 + 60, unreachable_nodes={"n1": T0})
    assert not reconcile(o, TEN_MINUTES).create_pods


@dataclass
class PlayedCluster:
    """The job, the API server's rule of deletions, and kubelets that obey as far as `ends_s` has it."""

    status: TrainingJobStatus
    pods: dict[str, PodRecord]
    ends_s: dict[str, float]
    """Name of the pod → seconds after SIGTERM at which it ends by itself."""
    immortal: frozenset[str]
    """Pods that SIGKILL does not end."""
    unreachable: dict[str, float]
    limit: Settings
    now: float
    grace_period_s: int
    events: list[str] = field(default_factory=list)
    left_at: float | None = None

    def observed(self) -> Observation:
        spec = {"gracePeriod": f"{self.grace_period_s}s"}
        return observed(self.status, *self.pods.values(), now=self.now, unreachable_nodes=self.unreachable, spec=spec)

    def request(self, name: str, grace_s: int) -> None:
        """Delete like the API server: a later request can only shorten the first one's grace period."""
        before = self.pods[name]
        if before.deletion is None:
            request = DeletionRequest(asked_at=self.now, grace_s=grace_s)
        else:
            request = replace(before.deletion, grace_s=min(grace_s, before.deletion.grace_s))
        self.pods[name] = replace(before, deleting=True, deletion=request)

    def gone_at(self, one: PodRecord) -> float | None:
        if one.deletion is None or one.node in self.unreachable:
            return None
        by_itself = one.deletion.asked_at + self.ends_s[one.name]
        killed = None if one.name in self.immortal else one.deletion.asked_at + one.deletion.grace_s + 2
        return min(at for at in (by_itself, killed) if at is not None)

    def step(self) -> float | None:
        """What a reconcile does now, and the time of the next one."""
        self.pods = {name: one for name, one in self.pods.items() if (self.gone_at(one) or self.now + 1) > self.now}
        result = reconcile(self.observed(), self.limit)
        if result.status is not None:
            self.status = result.status
            if self.status.phase is Phase.PENDING and self.left_at is None:
                self.left_at = self.now
        for one in result.delete_pods:
            self.request(one.name, one.grace_s)
        for again in result.forced_deletions:
            self.events.append(again.event.reason)
            for one in again.pods:
                self.request(one.name, again.grace_s)
        if result.acts:
            return self.now
        times = [result.requeue_at, *(self.gone_at(one) for one in self.pods.values())]
        return min((at for at in times if at is not None), default=None)


@dataclass(frozen=True)
class Trouble:
    """Faults that an administrator, a tenant, programs and nodes may cause."""

    limit_s: int
    own_s: int
    """Grace period in the specs of the pods."""
    spec_s: int
    """Grace period in the spec of the job, as it reads now."""
    deleted: tuple[int, int] | None
    """By the tenant: with this grace period, so many seconds before the eviction."""
    ends_s: tuple[float, float]
    immortal: frozenset[str]
    unreachable: frozenset[str]


SECONDS = st.integers(1, 86_400)
TROUBLES = st.builds(
    Trouble,
    limit_s=SECONDS,
    own_s=SECONDS,
    spec_s=SECONDS,
    deleted=st.none() | st.tuples(st.integers(0, 10**9), st.integers(0, 10**6)),
    ends_s=st.tuples(st.floats(0, 10**9), st.floats(0, 10**9)),
    immortal=st.frozensets(st.sampled_from(["train-1-0", "train-1-1"])),
    unreachable=st.frozensets(st.sampled_from(["n1", "n2"])),
)
EVICTED_AT = T0 + 50


def evicted(trouble: Trouble) -> PlayedCluster:
    pods = {
        "train-1-0": replace(pod(0, ready=True), grace_s=trouble.own_s),
        "train-1-1": replace(pod(1, node="n2", ready=True), grace_s=trouble.own_s),
    }
    cluster = PlayedCluster(
        status=admitted(Phase.EVICTING, *TWO),
        pods=pods,
        ends_s=dict(zip(pods, trouble.ends_s, strict=True)),
        immortal=trouble.immortal,
        unreachable=dict.fromkeys(trouble.unreachable, T0),
        limit=Settings(max_grace_period_s=trouble.limit_s),
        now=EVICTED_AT,
        grace_period_s=trouble.spec_s,
    )
    if trouble.deleted is not None:
        grace_s, before_s = trouble.deleted
        cluster.now = EVICTED_AT - before_s
        cluster.request("train-1-0", grace_s)
        cluster.now = EVICTED_AT
    return cluster


@settings(max_examples=300, deadline=None)
@given(trouble=TROUBLES)
def test_every_eviction_ends_within_its_bound_whatever_pods_nodes_and_tenants_do(trouble: Trouble) -> None:
    cluster = evicted(trouble)
    for _ in range(50):
        next_at = cluster.step()
        if next_at is None or cluster.left_at is not None:
            break
        assert next_at >= cluster.now
        cluster.now = next_at
    assert cluster.left_at is not None, cluster
    assert cluster.left_at <= EVICTED_AT + trouble.limit_s + max(KILL_AFTER_S + CONFIRM_S, UNREACHABLE_S)


@settings(max_examples=300, deadline=None)
@given(trouble=TROUBLES)
def test_what_an_eviction_leaves_behind_is_asked_with_all_force_and_named(trouble: Trouble) -> None:
    cluster = evicted(trouble)
    for _ in range(50):
        next_at = cluster.step()
        if next_at is None:
            break
        cluster.now = next_at
    left = {name: one.deletion.grace_s for name, one in cluster.pods.items() if one.deletion}
    named = {one.status for one in cluster.status.conditions if one.type == "TerminationOverdue"}
    stay = {
        name
        for name, one in cluster.pods.items()
        if one.node in trouble.unreachable or (name in trouble.immortal and name in left)
    }
    assert set(cluster.pods) <= stay
    assert max(left.values(), default=0) <= 1
    assert ("True" in named) == bool(left)
