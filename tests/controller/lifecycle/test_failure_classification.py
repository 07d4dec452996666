"""Which pod's exit explains the end of an attempt, and whose fault it was. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cotenant import names
from cotenant.controller.informers.disruption import Disruption
from cotenant.controller.informers.pod_record import Exit, PodRecord
from cotenant.controller.lifecycle.failure_classification import (
    SETTLE_S,
    AttemptEnd,
    AttemptOutcome,
    Undecided,
    classify,
)
from cotenant.controller.lifecycle.retries import exit_message
from tests.controller.builders import T0, exited, pod, server

PEER_LOST = names.EXIT_PEER_LOST
DRAINED = Disruption("Drained", "was evicted, as `kubectl drain` does")
KUBELET = Disruption("EndedByKubelet", "was ended by the kubelet: low on memory", by_kubelet=True)
GONE = Exit(code=137, reason="ContainerStatusUnknown", at=T0, runtime_message="The container could not be located")
OOM = Exit(code=137, reason="OOMKilled", at=T0)


@dataclass(frozen=True)
class Case:
    name: str
    pods: tuple[PodRecord, ...]
    kind: AttemptOutcome
    culprit: int = 0
    """Node rank."""


CASES = [
    Case("all ended with 0", (pod(0, end=exited(0)), pod(1, end=exited(0))), AttemptOutcome.COMPLETED),
    Case("a code of the program", (pod(0, end=exited(7)),), AttemptOutcome.FAILED),
    Case("killed by a signal", (pod(0, end=exited(137, rank=0)),), AttemptOutcome.FAILED),
    Case("killed from outside, and no word", (pod(0, end=exited(137)),), AttemptOutcome.PLATFORM_FAULT),
    Case("gone with its node's power", (pod(0, end=GONE),), AttemptOutcome.PLATFORM_FAULT),
    Case("over its quota", (pod(0, end=exited(names.EXIT_QUOTA)),), AttemptOutcome.FAILED),
    Case("Ray died", (pod(0, end=exited(names.EXIT_RAY_DIED)),), AttemptOutcome.PLATFORM_FAULT),
    Case("no rendezvous", (pod(0, end=exited(names.EXIT_RENDEZVOUS_TIMEOUT)),), AttemptOutcome.PLATFORM_FAULT),
    Case("evicted by the kubelet", (pod(0, end=Exit(code=-1, reason="Evicted")),), AttemptOutcome.PLATFORM_FAULT),
    Case(
        "drained, and killed before it could say a word",
        (pod(0, end=exited(137), disruption=DRAINED),),
        AttemptOutcome.EXTERNAL_DISRUPTION,
    ),
    Case(
        "drained, and left in time",
        (pod(0, end=exited(143, reason="Preempted"), disruption=DRAINED),),
        AttemptOutcome.EXTERNAL_DISRUPTION,
    ),
    Case(
        "failed by itself while it was drained",
        (pod(0, end=exited(7, rank=0), disruption=DRAINED),),
        AttemptOutcome.FAILED,
    ),
    Case("out of memory while it was drained", (pod(0, end=OOM, disruption=DRAINED),), AttemptOutcome.FAILED),
    Case(
        "killed by the kubelet of a node in need",
        (pod(0, end=exited(137), disruption=KUBELET),),
        AttemptOutcome.PLATFORM_FAULT,
    ),
    Case(
        "a pod that was drained without a word explains the peers that lost it",
        (pod(0, end=exited(PEER_LOST)), pod(1, end=exited(137), disruption=DRAINED)),
        AttemptOutcome.EXTERNAL_DISRUPTION,
        culprit=1,
    ),
    Case(
        "a contract that cannot be read", (pod(0, end=exited(names.EXIT_BAD_CONTRACT)),), AttemptOutcome.NON_RETRIABLE
    ),
    Case("ended by somebody else", (pod(0, end=exited(names.EXIT_PREEMPTED)),), AttemptOutcome.EXTERNAL_DISRUPTION),
    Case(
        "the one that failed explains more than the ones that noticed",
        (
            pod(0, end=exited(PEER_LOST, at=T0)),
            pod(1, end=exited(1, at=T0 + 3)),
            pod(2, end=exited(PEER_LOST, at=T0)),
        ),
        AttemptOutcome.FAILED,
        culprit=1,
    ),
    Case(
        "of two that failed the first",
        (pod(0, end=exited(1, at=T0 + 2)), pod(1, end=exited(2, at=T0 + 1))),
        AttemptOutcome.FAILED,
        culprit=1,
    ),
    Case(
        "a pod that was taken away explains the peers that lost it",
        (pod(0, end=exited(PEER_LOST)), pod(1, end=exited(names.EXIT_PREEMPTED))),
        AttemptOutcome.EXTERNAL_DISRUPTION,
        culprit=1,
    ),
    Case(
        "a head that was drained explains those that never found it",
        (
            pod(0, end=exited(143, reason="Preempted"), disruption=DRAINED),
            pod(1, end=exited(names.EXIT_RENDEZVOUS_TIMEOUT)),
            pod(2, end=exited(names.EXIT_RAY_DIED)),
        ),
        AttemptOutcome.EXTERNAL_DISRUPTION,
    ),
    Case(
        "rank 0 that succeeded does not hide another that failed",
        (pod(0, end=exited(0)), pod(1, end=exited(1))),
        AttemptOutcome.FAILED,
        culprit=1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_end_of_an_attempt(case: Case) -> None:
    gang = {one.worker.node_rank: one for one in case.pods if one.worker}
    ending = classify(gang, len(gang), T0 + 1000)
    assert isinstance(ending, AttemptEnd)
    assert (ending.outcome, ending.pod.name if ending.pod else "") == (case.kind, f"train-1-{case.culprit}")


def test_who_took_a_pod_away_is_said_instead_of_its_exit_code() -> None:
    ending = classify({0: pod(0, end=exited(137), disruption=DRAINED)}, 1, T0)
    assert isinstance(ending, AttemptEnd)
    assert (ending.exit.code, ending.exit.reason) == (137, "Drained")
    assert ending.exit.message == "pod train-1-0 on node n1 was evicted, as `kubectl drain` does"


def test_the_first_exit_waits_a_moment_for_the_one_that_explains_it() -> None:
    noticed = {0: pod(0, end=exited(PEER_LOST, at=T0)), 1: pod(1, ready=True)}
    assert classify(noticed, 2, T0 + 1) == Undecided(T0 + SETTLE_S)
    late = classify(noticed, 2, T0 + SETTLE_S)
    assert isinstance(late, AttemptEnd)
    assert late.outcome is AttemptOutcome.PLATFORM_FAULT


@pytest.mark.parametrize(("gang", "size"), [({}, 2), ({0: pod(0, ready=True)}, 1)], ids=["no pods yet", "all run"])
def test_nobody_has_ended(gang: dict[int, PodRecord], size: int) -> None:
    assert classify(gang, size, T0) is None


def test_a_worker_pod_that_ended_with_0_alone_says_nothing_about_the_job() -> None:
    assert classify({0: pod(0, ready=True), 1: pod(1, end=exited(0))}, 2, T0 + 1000) is None


def test_what_the_kernel_did_is_said_in_words() -> None:
    ending = classify({0: pod(0, end=Exit(code=137, reason="OOMKilled", at=T0))}, 1, T0)
    assert isinstance(ending, AttemptEnd)
    assert ending.exit.message == "pod train-1-0 used more memory than it has; ask for more in spec.resources.memory"


def test_the_pod_and_the_node_are_those_of_the_rank_that_failed_whichever_pod_ends_first() -> None:
    told = {"rank": 1, "pod": 1, "message": "rank 1 ended with 3: no data"}
    first, second = exited(3, at=T0 + 1, **told), exited(3, at=T0 + 2, **told)
    ending = classify({0: pod(0, end=first), 1: pod(1, node="n2", end=second)}, 2, T0)
    assert isinstance(ending, AttemptEnd)
    assert (ending.exit.rank, ending.exit.pod, ending.exit.node) == (1, "train-1-1", "n2")
    assert exit_message(ending.exit) == "rank 1 (pod train-1-1 on node n2) ended with 3: no data"


def test_a_launcher_that_was_killed_is_nobodys_program() -> None:
    ending = classify({0: pod(0, end=exited(PEER_LOST)), 1: pod(1, end=exited(137))}, 2, T0 + 1000)
    assert isinstance(ending, AttemptEnd)
    assert ending.exit.message.startswith("pod train-1-1 on node n1 was killed from outside (SIGKILL")
    assert exit_message(ending.exit) == ending.exit.message


def test_a_container_that_went_with_its_node_is_told_in_the_kubelets_words() -> None:
    ending = classify({0: pod(0, end=GONE)}, 1, T0)
    assert isinstance(ending, AttemptEnd)
    words = "pod train-1-0 was ended by the platform (ContainerStatusUnknown): The container could not be located"
    assert ending.exit.message == words


def test_a_server_has_memory_of_its_own_to_ask_for() -> None:
    killed = server(nodes=1, end=Exit(code=137, reason="OOMKilled", at=T0))
    ending = classify({0: pod(0, end=exited(PEER_LOST)), 1: killed}, 2, T0)
    assert isinstance(ending, AttemptEnd)
    assert ending.exit.message.endswith("ask for more in spec.runtime.parameterServer.resources.memory")
