"""`all_reduce` without a framework: ranks are threads, the ring is real TCP on loopback."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cotenant_worker.collectives import all_reduce, ring_rendezvous, torch_backend
from cotenant_worker.collectives.duplex_socket import PeerGoneError
from cotenant_worker.collectives.ring import Op, Ring
from cotenant_worker.collectives.ring_rendezvous import form_ring
from cotenant_worker.messaging.hmac_handshake import one_time_token
from cotenant_worker.supervision.conductor import free_ports


def on_ring(size: int, work: Callable[[Ring], Any]) -> list[Any]:
    """What `work` returns on every rank of a fresh ring."""
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"

    def rank(number: int) -> Any:
        ring = form_ring(number, size, address, "secret")
        try:
            return work(ring)
        finally:
            ring.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(rank, range(size)))


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 4, 1000, 300_000])
@pytest.mark.parametrize("op", ["sum", "mean", "max", "min", "prod"])
def test_arrays_of_every_length_reduce_to_the_same_on_every_rank(size: int, length: int, op: Op) -> None:
    parts = [np.random.default_rng(rank).uniform(0.5, 1.5, length) for rank in range(size)]
    reduce: dict[str, Callable[..., Any]] = {
        "sum": np.sum,
        "mean": np.mean,
        "max": np.max,
        "min": np.min,
        "prod": np.prod,
    }
    want = reduce[op](parts, axis=0)
    found = on_ring(size, lambda it: it.all_reduce(parts[it.rank], op))
    for array in found:
        np.testing.assert_allclose(array, want, rtol=1e-12)
        assert np.array_equal(array, found[0])


def test_shape_and_type_stay_and_the_argument_is_not_changed() -> None:
    source = np.arange(6, dtype=np.int32).reshape(2, 3)
    found = on_ring(2, lambda it: it.all_reduce(source, "sum"))
    assert found[0].dtype == np.int32
    assert found[0].tolist() == [[0, 2, 4], [6, 8, 10]]
    assert source.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("length", [2, 300_000])
def test_ranks_that_disagree_are_told_so_instead_of_hanging(length: int) -> None:
    def work(ring: Ring) -> str:
        with pytest.raises(ValueError, match="ranks disagree") as found:
            ring.all_reduce(np.zeros(length + ring.rank), "sum")
        return str(found.value)

    assert on_ring(2, work) == [
        f"all_reduce: ranks disagree: rank 0 does sum of <f8 [{length}], rank 1 does sum of <f8 [{length + 1}]",
        f"all_reduce: ranks disagree: rank 1 does sum of <f8 [{length + 1}], rank 0 does sum of <f8 [{length}]",
    ]


def test_different_collectives_at_the_same_time_are_told_apart() -> None:
    def work(ring: Ring) -> str:
        with pytest.raises(ValueError, match="ranks disagree") as found:
            ring.all_gather(b"x") if ring.rank == 0 else ring.all_reduce(np.arange(3), "max")
        return str(found.value)

    assert on_ring(2, work) == [
        "all_reduce: ranks disagree: rank 0 does all_gather, rank 1 does max of <i8 [3]",
        "all_reduce: ranks disagree: rank 1 does max of <i8 [3], rank 0 does all_gather",
    ]


@pytest.mark.parametrize("length", [5, 300_000])
@pytest.mark.parametrize("op", ["sum", "mean", "prod"])
def test_in_place_the_array_itself_becomes_the_result(length: int, op: Op) -> None:
    parts = [np.random.default_rng(rank).uniform(0.5, 1.5, length) for rank in range(3)]
    fresh = on_ring(3, lambda it: it.all_reduce(parts[it.rank], op))

    def work(ring: Ring) -> bool:
        return ring.all_reduce(parts[ring.rank], op, in_place=True) is parts[ring.rank]

    assert on_ring(3, work) == [True] * 3
    for part in parts:
        assert np.array_equal(part, fresh[0])


@pytest.mark.parametrize(
    ("value", "op", "why"),
    [
        pytest.param(1.5, "sum", "this float cannot be changed", id="a number"),
        pytest.param(np.float64(1), "sum", "this float64 cannot be changed", id="a scalar"),
        pytest.param(np.arange(3), "mean", "the mean of int64 is not int64", id="the mean of whole numbers"),
    ],
)
def test_what_cannot_change_in_place_is_refused(value: Any, op: Op, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        all_reduce.all_reduce(value, op, in_place=True)


def test_a_rank_that_leaves_is_noticed_by_its_neighbours() -> None:
    def work(ring: Ring) -> str:
        if ring.rank == 1:
            return "left"
        with pytest.raises(PeerGoneError, match="rank 1 or rank 1 went away"):
            ring.all_reduce(np.zeros(10), "sum")
        return "noticed"

    assert on_ring(2, work) == ["noticed", "left"]


def test_bytes_are_gathered_in_rank_order() -> None:
    assert on_ring(3, lambda it: it.all_gather(b"x" * it.rank)) == [[b"", b"x", b"xx"]] * 3


@pytest.mark.parametrize(
    ("value", "op", "want"),
    [([1, 2], "sum", 3), ([1.5, 2.5], "mean", 2.0), ([1, 5], "max", 5), ([1, 5], "min", 1), ([3, 5], "prod", 15)],
)
def test_numbers_reduce_as_numbers(value: list[Any], op: Op, want: Any) -> None:
    assert all_reduce._reduce_numbers(value, op) == want


def test_a_world_of_one_reduces_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "1")
    source = np.ones(3)
    found = all_reduce.all_reduce(source, "mean")
    assert found.tolist() == [1.0, 1.0, 1.0]
    assert found is not source
    assert all_reduce.broadcast({"a": 1}) == {"a": 1}


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A torch process group, of this process only; `all_reduce` believes in two ranks and asks it."""
    import torch.distributed as dist

    monkeypatch.setenv("WORLD_SIZE", "2")
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("group")
def test_over_torch_a_tensor_is_copied_unless_it_may_be_changed() -> None:
    import torch

    tensor = torch.arange(6.0).reshape(2, 3).T  # not contiguous
    fresh = all_reduce.all_reduce(tensor, "mean")
    assert torch.equal(fresh, tensor)
    assert fresh.data_ptr() != tensor.data_ptr()
    assert all_reduce.all_reduce(tensor, "sum", in_place=True) is tensor
    assert torch.equal(fresh, tensor)


@pytest.mark.usefixtures("group")
@pytest.mark.parametrize(
    ("value", "op", "world", "want"),
    [
        pytest.param(np.ones(8192), "mean", 1, True, id="a large array"),
        pytest.param(np.ones(8191), "mean", 1, False, id="a small one"),
        pytest.param(np.ones(8192, np.int64), "mean", 1, False, id="whole numbers whose mean is not"),
        pytest.param(np.ones(8192, np.int64), "sum", 1, True, id="whole numbers"),
        pytest.param(np.ones(8192, np.complex128), "sum", 1, False, id="a kind that torch reduces in its own way"),
        pytest.param([1.0] * 8192, "sum", 1, False, id="neither array nor tensor"),
        pytest.param(np.ones(8192), "mean", 2, False, id="a process group of other ranks than the job's"),
    ],
)
def test_large_values_on_the_cpu_go_over_the_ring(value: Any, op: Op, world: int, want: bool) -> None:
    import torch

    assert torch_backend.rather_ring(torch, value, op, rank=0, world=world) is want
    if isinstance(value, np.ndarray):
        assert torch_backend.rather_ring(torch, torch.from_numpy(value), op, rank=0, world=world) is want


@pytest.mark.parametrize("in_place", [False, True])
def test_a_tensor_keeps_its_kind_on_its_way_over_the_ring(monkeypatch: pytest.MonkeyPatch, in_place: bool) -> None:
    import torch

    tensors = [torch.arange(20_000.0).reshape(100, 200).T * (rank + 1) for rank in range(2)]  # not contiguous
    sources = [tensor.clone() for tensor in tensors]

    def work(ring: Ring) -> Any:
        monkeypatch.setattr(all_reduce, "_ring", lambda: rings[threading.get_ident()])
        rings[threading.get_ident()] = ring
        return all_reduce._with_ring(tensors[ring.rank], "mean", in_place)

    rings: dict[int, Ring] = {}
    for rank, found in enumerate(on_ring(2, work)):
        assert torch.equal(found, sources[0] * 1.5)
        assert (found is tensors[rank]) is in_place
        assert torch.equal(tensors[rank], found if in_place else sources[rank])


@pytest.mark.usefixtures("group")
def test_over_torch_the_mean_of_whole_numbers_is_not_whole() -> None:
    import torch

    assert all_reduce.all_reduce(torch.tensor([1, 2]), "mean").dtype == torch.float32


@pytest.mark.usefixtures("group")
def test_over_torch_arrays_and_numbers_keep_their_kind() -> None:
    array = np.arange(3, dtype=np.float32)
    fresh = all_reduce.all_reduce(array, "mean")
    assert (fresh.tolist(), fresh.dtype, np.shares_memory(fresh, array)) == ([0.0, 1.0, 2.0], np.float32, False)
    assert all_reduce.all_reduce(array, "mean", in_place=True) is array
    assert [all_reduce.all_reduce(value, "sum") for value in (2, 2.5)] == [2, 2.5]


def test_an_unknown_operation_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="op must be sum, mean, max, min or prod, not 'avg'"):
        all_reduce.all_reduce(1, "avg")  # type: ignore[arg-type]


def test_nothing_that_was_said_for_one_ring_opens_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that ranks send and answer while they meet, over and over: no proof, ticket or nonce comes twice."""
    said: list[bytes] = []

    class Ear(socket.socket):
        def sendall(self, data: Any, flags: int = 0) -> None:
            said.append(bytes(data))
            super().sendall(data, flags)

    monkeypatch.setattr(socket, "socket", Ear)
    for _ in range(2):
        on_ring(3, lambda it: it.rank)
    digests = [message for message in said if len(message) in (16, 32)]
    assert len(digests) == 2 * (2 + 2 + 3)  # two come to rank 0's door, three to a neighbour's
    assert len(set(digests)) == len(digests)
    assert not any(b"secret" in message for message in said)


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(one_time_token("secret", bytes(16), 1), id="a ticket of another ring"),
        pytest.param(one_time_token("secret", b"n" * 16, 2), id="a ticket of another rank"),
        pytest.param(one_time_token("guess", b"n" * 16, 1), id="another secret"),
    ],
)
def test_a_neighbour_without_its_ticket_is_turned_away(shown: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        found = pool.submit(ring_rendezvous._accept_from, listener, 1, "secret", b"n" * 16)
        with socket.create_connection(listener.getsockname()) as stranger:
            stranger.sendall(shown)
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
        with socket.create_connection(listener.getsockname()) as neighbour:
            neighbour.sendall(one_time_token("secret", b"n" * 16, 1))
            with found.result(20) as accepted:
                assert accepted.getpeername() == neighbour.getsockname()


def test_who_does_not_know_the_secret_is_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ring_rendezvous, "_JOIN_S", 0.5)
    address = f"127.0.0.1:{free_ports('127.0.0.1', 1)[0]}"
    with ThreadPoolExecutor(2) as pool:
        good = pool.submit(form_ring, 0, 2, address, "secret")
        bad = pool.submit(form_ring, 1, 2, address, "guess")
        with pytest.raises(TimeoutError, match=r"ranks \[1\] did not come"):
            good.result(20)
        assert isinstance(bad.exception(20), OSError)
    assert "COTENANT_REDUCE_ADDR" not in os.environ
