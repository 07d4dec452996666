"""The ranks of one start of a job."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant_worker.supervision.worker_group import RankAssignment, WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract

A, B, C = "10.0.0.1", "10.0.0.2", "10.0.0.3"


@pytest.mark.parametrize(
    ("mode", "addresses", "want"),
    [
        pytest.param(
            "command",
            {2: C, 0: A, 1: B},
            [
                RankAssignment(rank=0, pod=0, ip=A, local_rank=0, grant=0),
                RankAssignment(rank=1, pod=0, ip=A, local_rank=1, grant=1),
                RankAssignment(rank=2, pod=1, ip=B, local_rank=0, grant=2),
                RankAssignment(rank=3, pod=2, ip=C, local_rank=0, grant=3),
            ],
            id="all pods, in their order whichever came first",
        ),
        pytest.param(
            "command",
            {0: A, 2: C},
            [
                RankAssignment(rank=0, pod=0, ip=A, local_rank=0, grant=0),
                RankAssignment(rank=1, pod=0, ip=A, local_rank=1, grant=1),
                RankAssignment(rank=2, pod=2, ip=C, local_rank=0, grant=3),
            ],
            id="without a pod: no gap in the numbers, and every rank keeps its grant",
        ),
        pytest.param(
            "rayTrain",
            {0: A, 1: B, 2: C},
            [RankAssignment(rank=0, pod=0, ip=A, local_rank=0, grant=0)],
            id="Ray Train makes its workers itself",
        ),
    ],
)
def test_ranks_are_numbered_over_the_pods_that_are_there(
    mode: Any, addresses: dict[int, str], want: list[RankAssignment]
) -> None:
    assert list(assign_ranks(contract([2, 1, 1], mode=mode), addresses)) == want


def test_a_pod_finds_its_own_ranks() -> None:
    ranks = assign_ranks(contract([2, 1]), {0: A, 1: B})
    group = WorkerGroup(0, ranks, A, 24001, 24002)
    assert (group.size, [group.of_pod(pod) for pod in (0, 1, 2)]) == (3, [ranks[:2], ranks[2:], ()])
