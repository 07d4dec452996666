"""Which pod's exit explains the end of an attempt, and whose fault it was. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

import pytest

from cotenant import names
from cotenant.api.scalars.fields import moment
from cotenant.controller.informers.pods.disruption import Disruption
from cotenant.controller.informers.pods.pod_record import Exit, PodRecord
from cotenant.controller.lifecycle.failure_classification import (
    SETTLE_S,
    AttemptEnd,
    AttemptOutcome,
    Undecided,
    classify,
    pod_lost,
)
from cotenant.controller.lifecycle.policies.retries import exit_message
from tests.controller.builders import T0, exited, placement_on, pod, server

PEER_LOST = names.EXIT_PEER_LOST
DRAINED = Disruption("Drained", "was evicted, as `kubectl drain` does")
KUBELET = Disruption("EndedByKubelet", "was ended by the kubelet: low on memory", by_kubelet=True)
GONE = Exit(code=137, reason="ContainerStatusUnknown", at=T0, runtime_message="The container could not be located")
UNSEEN = Exit(code=255, reason="Unknown", at=T0)
REFUSED = Exit(
    code=-1, reason="UnexpectedAdmissionError", runtime_message="Allocate failed: requested 600, available 0"
)
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
    Case("gone with its node's container runtime", (pod(0, end=UNSEEN),), AttemptOutcome.PLATFORM_FAULT),
    Case("a program's own 255", (pod(0, end=Exit(code=255, reason="Error", at=T0)),), AttemptOutcome.FAILED),
    Case(
        "the runtime of one node went, and its peer lost it",
        (pod(0, end=exited(PEER_LOST)), pod(1, end=UNSEEN)),
        AttemptOutcome.PLATFORM_FAULT,
        culprit=1,
    ),
    Case("over its quota", (pod(0, end=exited(names.EXIT_QUOTA)),), AttemptOutcome.FAILED),
    Case("CUDA does not work", (pod(0, end=exited(names.EXIT_GPUS_UNUSABLE)),), AttemptOutcome.PLATFORM_FAULT),
    Case("Ray died", (pod(0, end=exited(names.EXIT_RAY_DIED)),), AttemptOutcome.PLATFORM_FAULT),
    Case("no rendezvous", (pod(0, end=exited(names.EXIT_RENDEZVOUS_TIMEOUT)),), AttemptOutcome.PLATFORM_FAULT),
    Case("evicted by the kubelet", (pod(0, end=Exit(code=-1, reason="Evicted")),), AttemptOutcome.PLATFORM_FAULT),
    Case(
        "refused by its kubelet, while the others wait for it",
        (pod(0), pod(1, end=REFUSED)),
        AttemptOutcome.EXTERNAL_DISRUPTION,
        1,
    ),
    Case(
        "refused by its kubelet, and the others lost it",
        (pod(0, end=exited(7)), pod(1, end=REFUSED)),
        AttemptOutcome.EXTERNAL_DISRUPTION,
        1,
    ),
    Case(
        "no CPU left on its node", (pod(0, end=Exit(code=-1, reason="OutOfcpu")),), AttemptOutcome.EXTERNAL_DISRUPTION
    ),
    *(
        Case(
            f"not let in by its kubelet: {reason}",
            (pod(0, end=Exit(code=-1, reason=reason)),),
            AttemptOutcome.EXTERNAL_DISRUPTION,
        )
        for reason in ("TopologyAffinityError", "NodeAffinity", "NodeShutdown", "VolumeAttachmentLimitExceeded")
    ),
    *(
        Case(
            f"not let in, in these words: {words}",
            (pod(0, end=Exit(code=-1, reason="Evicted", runtime_message=words, eviction=words)),),
            AttemptOutcome.EXTERNAL_DISRUPTION,
        )
        for words in (
            "The node had condition: [DiskPressure]. ",
            "Pod was rejected: The node had condition: [PIDPressure]. ",
        )
    ),
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
        "drained, and ended by its node before any of its programs had a code",
        (pod(0, end=Exit(code=-1, reason="Evicted"), disruption=DRAINED),),
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
        "a code of the job's own explains a pod that was asked to leave before",
        (pod(0, end=exited(names.EXIT_PREEMPTED, at=T0)), pod(1, end=exited(7, at=T0 + 3))),
        AttemptOutcome.FAILED,
        culprit=1,
    ),
    Case(
        "a code of the job's own explains a Ray that died before",
        (pod(0, end=exited(names.EXIT_RAY_DIED, at=T0)), pod(1, end=exited(7, at=T0 + 3))),
        AttemptOutcome.FAILED,
        culprit=1,
    ),
    Case(
        "a code of the job's own explains a pod that its node evicted before",
        (pod(0, end=Exit(code=-1, reason="Evicted", at=T0)), pod(1, end=exited(7, at=T0 + 3))),
        AttemptOutcome.FAILED,
        culprit=1,
    ),
    Case(
        "a pod that its node evicted explains the peers that lost it",
        (pod(0, end=exited(PEER_LOST, at=T0)), pod(1, end=Exit(code=-1, reason="Evicted", at=T0 + 3))),
        AttemptOutcome.PLATFORM_FAULT,
        culprit=1,
    ),
    Case(
        "of two that ended at once the lower node rank",
        (pod(1, end=exited(2, at=T0)), pod(0, end=exited(1, at=T0))),
        AttemptOutcome.FAILED,
    ),
    Case(
        "drained, and killed by a signal that no shell has a number for",
        (pod(0, end=exited(128), disruption=DRAINED),),
        AttemptOutcome.EXTERNAL_DISRUPTION,
    ),
    Case(
        "drained, and ended by itself with the largest code of its own",
        (pod(0, end=exited(127), disruption=DRAINED),),
        AttemptOutcome.FAILED,
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
    assert (ending.exit.code, ending.exit.reason, ending.message_is_complete) == (137, "Drained", True)
    assert ending.exit.message == "pod train-1-0 on node n1 was evicted, as `kubectl drain` does"


def test_the_first_exit_waits_a_moment_for_the_one_that_explains_it() -> None:
    noticed = {0: pod(0, end=exited(PEER_LOST, at=T0)), 1: pod(1, ready=True)}
    assert classify(noticed, 2, T0 + 1) == Undecided(T0 + SETTLE_S)
    more = noticed | {2: pod(2, end=exited(PEER_LOST, at=T0 + 3))}
    assert classify(more, 3, T0 + 4) == Undecided(T0 + SETTLE_S)
    late = classify(noticed, 2, T0 + SETTLE_S)
    assert isinstance(late, AttemptEnd)
    assert late.outcome is AttemptOutcome.PLATFORM_FAULT


def test_the_pause_begins_with_the_first_exit_of_which_the_time_is_known() -> None:
    gang = {0: pod(0, end=exited(PEER_LOST, at=0.0)), 1: pod(1, end=exited(PEER_LOST, at=T0)), 2: pod(2, ready=True)}
    assert classify(gang, 3, T0 + 1) == Undecided(T0 + SETTLE_S)


@pytest.mark.parametrize(
    ("end", "reason", "at"),
    [
        (Exit(code=7, reason="ContainerCannotRun", at=T0), "ContainerCannotRun", moment(T0)),
        (Exit(code=7, reason="", at=0.0), "Error", None),
    ],
    ids=["with both", "with neither"],
)
def test_an_exit_has_the_reason_and_the_time_that_the_kubelet_gave_it(
    end: Exit, reason: str, at: datetime | None
) -> None:
    ending = classify({0: pod(0, end=end)}, 1, T0)
    assert isinstance(ending, AttemptEnd)
    assert (ending.exit.reason, ending.exit.at) == (reason, at)


@pytest.mark.parametrize(("gang", "size"), [({}, 2), ({0: pod(0, ready=True)}, 1)], ids=["no pods yet", "all run"])
def test_nobody_has_ended(gang: dict[int, PodRecord], size: int) -> None:
    assert classify(gang, size, T0) is None


def test_a_worker_pod_that_ended_with_0_alone_says_nothing_about_the_job() -> None:
    assert classify({0: pod(0, ready=True), 1: pod(1, end=exited(0))}, 2, T0 + 1000) is None


def test_a_worker_pod_speaks_for_the_pod_of_rank_0_that_is_gone() -> None:
    """Both had the same verdict, which the pod of rank 0 gives once all ranks have ended."""
    ending = classify({1: pod(1, node="n2", end=exited(0, at=T0))}, 2, T0 + 1)
    assert isinstance(ending, AttemptEnd)
    assert (ending.outcome, ending.pod.name if ending.pod else "") == (AttemptOutcome.COMPLETED, "train-1-1")


def test_a_parameter_server_does_not_speak_for_the_pod_of_rank_0() -> None:
    assert classify({1: server(nodes=1, end=exited(0))}, 2, T0 + 1000) is None


def test_what_the_kernel_did_is_said_in_words() -> None:
    ending = classify({0: pod(0, end=Exit(code=137, reason="OOMKilled", at=T0))}, 1, T0)
    assert isinstance(ending, AttemptEnd)
    assert ending.exit.message == "pod train-1-0 used more memory than it has; ask for more in spec.resources.memory"


@pytest.mark.parametrize(
    ("ranks", "field"),
    [
        (1, "spec.chief.resources.memory"),
        (3, "spec.chief.resources.memory, or in spec.resources.memory for the other ranks in it"),
    ],
    ids=["of its own", "with other ranks"],
)
def test_a_chief_that_ran_out_of_memory_is_told_which_field_is_the_chiefs(ranks: int, field: str) -> None:
    first = pod(0, end=OOM)
    assert first.worker is not None
    chief = replace(first.worker, has_chief=True, placement=placement_on(("n1", ranks)).nodes[0])
    ending = classify({0: replace(first, worker=chief)}, 1, T0)
    assert isinstance(ending, AttemptEnd)
    assert ending.exit.message == f"pod train-1-0 used more memory than it has; ask for more in {field}"


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


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (Exit(code=-1, reason="Evicted", at=T0), "was ended by the platform (Evicted)"),
        (UNSEEN, "was ended by the platform (Unknown)"),
        (exited(7), "ended with 7 and left no message"),
        (Exit(code=7, reason="Error", at=T0, runtime_message="no such file"), "ended with 7: no such file"),
        (Exit(code=7, reason="Error", at=T0, runtime_message="x" * 501), f"ended with 7: {'x' * 500}"),
    ],
    ids=lambda value: "" if isinstance(value, str) else f"{value.code} {value.reason}",
)
def test_an_exit_without_words_of_the_launcher_is_described(end: Exit, message: str) -> None:
    ending = classify({0: pod(0, end=end)}, 1, T0)
    assert isinstance(ending, AttemptEnd)
    assert ending.exit.message == f"pod train-1-0 {message}"


@pytest.mark.parametrize(
    ("disruption", "outcome", "reason", "message"),
    [
        (None, AttemptOutcome.EXTERNAL_DISRUPTION, "PodLost", "was deleted by somebody while the job was running"),
        (DRAINED, AttemptOutcome.EXTERNAL_DISRUPTION, "Drained", "was evicted, as `kubectl drain` does"),
        (KUBELET, AttemptOutcome.PLATFORM_FAULT, "EndedByKubelet", "was ended by the kubelet: low on memory"),
    ],
    ids=["no reason", "drained", "by the kubelet"],
)
def test_a_pod_that_is_not_there_any_more_is_charged_to_whoever_took_it(
    disruption: Disruption | None, outcome: AttemptOutcome, reason: str, message: str
) -> None:
    end = pod_lost("train-1-0", "n1", disruption, T0)
    assert (end.outcome, end.exit.code, end.exit.reason, end.exit.node) == (outcome, -1, reason, "n1")
    assert end.exit.message == f"pod train-1-0 on node n1 {message}"
    assert end.message_is_complete


def test_a_pod_that_was_lost_before_it_had_a_node_names_none() -> None:
    end = pod_lost("train-1-0", "", None, T0)
    assert (end.exit.node, end.exit.message) == (
        None,
        "pod train-1-0 was deleted by somebody while the job was running",
    )


TMP = 'Usage of EmptyDir volume "cotenant-tmp" exceeds the limit "50Gi". '
SHM = 'Usage of EmptyDir volume "cotenant-shm" exceeds the limit "1Gi". '
LAYER = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "


@pytest.mark.parametrize(
    ("eviction", "disruption", "reason", "advice"),
    [
        pytest.param(TMP, None, "ScratchFull", "Ask for more in spec.resources.scratch", id="/tmp is full"),
        pytest.param(LAYER, None, "ScratchFull", "Ask for more in spec.resources.scratch", id="its own layer"),
        pytest.param(SHM, None, "ScratchFull", "Ask for more in spec.resources.memory", id="/dev/shm is full"),
        pytest.param(TMP, KUBELET, "EndedByKubelet", "low on memory", id="its node runs low"),
    ],
)
@pytest.mark.parametrize("code", [137, names.EXIT_PREEMPTED], ids=["killed", "left in time"])
def test_a_pod_that_fills_its_own_disk_is_the_jobs_failure(
    eviction: str, disruption: Disruption | None, reason: str, advice: str, code: int
) -> None:
    ended = pod(0, end=Exit(code=code, reason="Error", at=T0, eviction=eviction), disruption=disruption)
    found = classify({0: ended}, 1, T0 + 60)
    assert isinstance(found, AttemptEnd)
    assert (found.outcome is AttemptOutcome.FAILED) is (reason == "ScratchFull")
    assert (found.exit.reason, found.exit.message.endswith(advice)) == (reason, True)
