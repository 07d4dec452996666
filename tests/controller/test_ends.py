"""Which pod's exit explains the end of an attempt, and whose fault it was. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from cotenant import names
from cotenant.controller.informers.disruption import Taken
from cotenant.controller.informers.pod_record import Exit, PodFacts
from cotenant.controller.lifecycle.failure_classification import SETTLE_S, End, Ending, WaitUntil, judge
from cotenant.controller.lifecycle.words import exit_message
from tests.controller.builders import T0, left, pod, server

PEER_LOST = names.EXIT_PEER_LOST
DRAINED = Taken("Drained", "was evicted, as `kubectl drain` does")
KUBELET = Taken("EndedByKubelet", "was ended by the kubelet: low on memory", by_kubelet=True)
GONE = Exit(code=137, reason="ContainerStatusUnknown", at=T0, said="The container could not be located")
OOM = Exit(code=137, reason="OOMKilled", at=T0)


@dataclass(frozen=True)
class Case:
    name: str
    pods: tuple[PodFacts, ...]
    kind: End
    culprit: int = 0
    """Node rank."""


CASES = [
    Case("all ended with 0", (pod(0, ended=left(0)), pod(1, ended=left(0))), End.COMPLETED),
    Case("a code of the program", (pod(0, ended=left(7)),), End.FAILED),
    Case("killed by a signal", (pod(0, ended=left(137, rank=0)),), End.FAILED),
    Case("killed from outside, and no word", (pod(0, ended=left(137)),), End.FAULT),
    Case("gone with its node's power", (pod(0, ended=GONE),), End.FAULT),
    Case("over its quota", (pod(0, ended=left(names.EXIT_QUOTA)),), End.FAILED),
    Case("Ray died", (pod(0, ended=left(names.EXIT_RAY_DIED)),), End.FAULT),
    Case("no rendezvous", (pod(0, ended=left(names.EXIT_RENDEZVOUS_TIMEOUT)),), End.FAULT),
    Case("evicted by the kubelet", (pod(0, ended=Exit(code=-1, reason="Evicted")),), End.FAULT),
    Case("drained, and killed before it could say a word", (pod(0, ended=left(137), taken=DRAINED),), End.LEFT),
    Case("drained, and left in time", (pod(0, ended=left(143, reason="Preempted"), taken=DRAINED),), End.LEFT),
    Case("failed by itself while it was drained", (pod(0, ended=left(7, rank=0), taken=DRAINED),), End.FAILED),
    Case("out of memory while it was drained", (pod(0, ended=OOM, taken=DRAINED),), End.FAILED),
    Case("killed by the kubelet of a node in need", (pod(0, ended=left(137), taken=KUBELET),), End.FAULT),
    Case(
        "a pod that was drained without a word explains the peers that lost it",
        (pod(0, ended=left(PEER_LOST)), pod(1, ended=left(137), taken=DRAINED)),
        End.LEFT,
        culprit=1,
    ),
    Case("a contract that cannot be read", (pod(0, ended=left(names.EXIT_BAD_CONTRACT)),), End.HOPELESS),
    Case("ended by somebody else", (pod(0, ended=left(names.EXIT_PREEMPTED)),), End.LEFT),
    Case(
        "the one that failed explains more than the ones that noticed",
        (pod(0, ended=left(PEER_LOST, at=T0)), pod(1, ended=left(1, at=T0 + 3)), pod(2, ended=left(PEER_LOST, at=T0))),
        End.FAILED,
        culprit=1,
    ),
    Case(
        "of two that failed the first",
        (pod(0, ended=left(1, at=T0 + 2)), pod(1, ended=left(2, at=T0 + 1))),
        End.FAILED,
        culprit=1,
    ),
    Case(
        "a pod that was taken away explains the peers that lost it",
        (pod(0, ended=left(PEER_LOST)), pod(1, ended=left(names.EXIT_PREEMPTED))),
        End.LEFT,
        culprit=1,
    ),
    Case(
        "a head that was drained explains those that never found it",
        (
            pod(0, ended=left(143, reason="Preempted"), taken=DRAINED),
            pod(1, ended=left(names.EXIT_RENDEZVOUS_TIMEOUT)),
            pod(2, ended=left(names.EXIT_RAY_DIED)),
        ),
        End.LEFT,
    ),
    Case(
        "rank 0 that succeeded does not hide another that failed",
        (pod(0, ended=left(0)), pod(1, ended=left(1))),
        End.FAILED,
        culprit=1,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_end_of_an_attempt(case: Case) -> None:
    gang = {one.worker.node_rank: one for one in case.pods if one.worker}
    ending = judge(gang, len(gang), T0 + 1000)
    assert isinstance(ending, Ending)
    assert (ending.kind, ending.pod.name if ending.pod else "") == (case.kind, f"train-1-{case.culprit}")


def test_who_took_a_pod_away_is_said_instead_of_its_exit_code() -> None:
    ending = judge({0: pod(0, ended=left(137), taken=DRAINED)}, 1, T0)
    assert isinstance(ending, Ending)
    assert (ending.exit.code, ending.exit.reason) == (137, "Drained")
    assert ending.exit.message == "pod train-1-0 on node n1 was evicted, as `kubectl drain` does"


def test_the_first_exit_waits_a_moment_for_the_one_that_explains_it() -> None:
    noticed = {0: pod(0, ended=left(PEER_LOST, at=T0)), 1: pod(1, ready=True)}
    assert judge(noticed, 2, T0 + 1) == WaitUntil(T0 + SETTLE_S)
    late = judge(noticed, 2, T0 + SETTLE_S)
    assert isinstance(late, Ending)
    assert late.kind is End.FAULT


@pytest.mark.parametrize(("gang", "size"), [({}, 2), ({0: pod(0, ready=True)}, 1)], ids=["no pods yet", "all run"])
def test_nobody_has_ended(gang: dict[int, PodFacts], size: int) -> None:
    assert judge(gang, size, T0) is None


def test_a_worker_pod_that_ended_with_0_alone_says_nothing_about_the_job() -> None:
    assert judge({0: pod(0, ready=True), 1: pod(1, ended=left(0))}, 2, T0 + 1000) is None


def test_what_the_kernel_did_is_said_in_words() -> None:
    ending = judge({0: pod(0, ended=Exit(code=137, reason="OOMKilled", at=T0))}, 1, T0)
    assert isinstance(ending, Ending)
    assert ending.exit.message == "pod train-1-0 used more memory than it has; ask for more in spec.resources.memory"


def test_the_pod_and_the_node_are_those_of_the_rank_that_failed_whichever_pod_ends_first() -> None:
    told = {"rank": 1, "pod": 1, "message": "rank 1 ended with 3: no data"}
    first, second = left(3, at=T0 + 1, **told), left(3, at=T0 + 2, **told)
    ending = judge({0: pod(0, ended=first), 1: pod(1, node="n2", ended=second)}, 2, T0)
    assert isinstance(ending, Ending)
    assert (ending.exit.rank, ending.exit.pod, ending.exit.node) == (1, "train-1-1", "n2")
    assert exit_message(ending.exit) == "rank 1 (pod train-1-1 on node n2) ended with 3: no data"


def test_a_launcher_that_was_killed_is_nobodys_program() -> None:
    ending = judge({0: pod(0, ended=left(PEER_LOST)), 1: pod(1, ended=left(137))}, 2, T0 + 1000)
    assert isinstance(ending, Ending)
    assert ending.exit.message.startswith("pod train-1-1 on node n1 was killed from outside (SIGKILL")
    assert exit_message(ending.exit) == ending.exit.message


def test_a_container_that_went_with_its_node_is_told_in_the_kubelets_words() -> None:
    ending = judge({0: pod(0, ended=GONE)}, 1, T0)
    assert isinstance(ending, Ending)
    words = "pod train-1-0 was ended by the platform (ContainerStatusUnknown): The container could not be located"
    assert ending.exit.message == words


def test_a_server_has_memory_of_its_own_to_ask_for() -> None:
    killed = server(nodes=1, ended=Exit(code=137, reason="OOMKilled", at=T0))
    ending = judge({0: pod(0, ended=left(PEER_LOST)), 1: killed}, 2, T0)
    assert isinstance(ending, Ending)
    assert ending.exit.message.endswith("ask for more in spec.runtime.parameterServer.resources.memory")
