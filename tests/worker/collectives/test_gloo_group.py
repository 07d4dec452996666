"""The gloo group of ranks without a process group: ranks are threads, TCP is real."""

from collections.abc import Callable
from typing import Any

import pytest

from cotenant_worker.collectives import gloo_group
from cotenant_worker.collectives.gloo_group import GlooGroup, form_group
from cotenant_worker.messaging.peer_connections import PeerGoneError
from cotenant_worker.supervision.conductor import free_ports
from tests.worker.collectives.groups import in_group


@pytest.mark.parametrize(("op", "want"), [("SUM", 6.0), ("MAX", 3.0), ("MIN", 1.0), ("PRODUCT", 6.0)])
def test_tensors_reduce_where_they_lie_and_calls_are_counted(op: str, want: float) -> None:
    import torch

    def work(group: GlooGroup) -> tuple[list[float], int]:
        for _ in range(2):
            tensor = torch.full((2,), group.rank + 1.0)
            group.all_reduce(tensor, op)
        return tensor.tolist(), group.entered

    assert in_group(3, work) == [([want, want], 2)] * 3


@pytest.mark.parametrize(
    ("other", "told"),
    [
        pytest.param(lambda torch: (torch.ones(4), "SUM"), "SUM of torch.float32 [4]", id="another shape"),
        pytest.param(lambda torch: (torch.ones(3).int(), "SUM"), "SUM of torch.int32 [3]", id="another type"),
        pytest.param(lambda torch: (torch.ones(3), "MAX"), "MAX of torch.float32 [3]", id="another operation"),
    ],
)
def test_ranks_that_disagree_are_told_so_instead_of_hanging(other: Callable[[Any], Any], told: str) -> None:
    import torch

    def work(group: GlooGroup) -> str:
        with pytest.raises(ValueError, match="ranks disagree") as found:
            group.all_reduce(*(other(torch) if group.rank else (torch.ones(3), "SUM")))
        return str(found.value)

    mine = "SUM of torch.float32 [3]"
    assert in_group(2, work) == [
        f"all_reduce: ranks disagree: rank 0 does {mine}, rank 1 does {told}",
        f"all_reduce: ranks disagree: rank 1 does {told}, rank 0 does {mine}",
    ]


def test_a_rank_that_leaves_is_named_to_the_others() -> None:
    import torch

    def work(group: GlooGroup) -> str:
        group.all_reduce(torch.ones(1), "SUM")
        if group.rank == 1:
            return "left"
        with pytest.raises(PeerGoneError, match=r"all_reduce: rank 1 went away \(at rank 0: ") as found:
            group.all_reduce(torch.ones(1), "SUM")
        return "noticed" if found.value.__cause__ else ""

    assert in_group(2, work) == ["noticed", "left"]


def test_ranks_that_do_not_come_are_named_after_the_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gloo_group, "TIMEOUT_S", 0.2)
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"
    with pytest.raises(TimeoutError, match=r"all_reduce: ranks \[1, 2\] did not come within 0 s"):
        form_group(0, 3, address)
    with pytest.raises(TimeoutError, match=f"all_reduce: rank 0 at {address} did not answer within 0 s"):
        form_group(1, 3, address)


def test_an_error_that_is_no_peers_stays_as_it_is() -> None:
    import torch

    def work(group: GlooGroup) -> str:
        with pytest.raises(RuntimeError) as found:
            group.all_reduce(torch.ones(1).to(torch.complex64), "PRODUCT")
        return type(found.value).__name__

    assert in_group(2, work) == ["RuntimeError"] * 2
