"""The plugin beside kubelets that come and go, over their real sockets."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cotenant_agent.device_plugin.offered_shares import OfferedShares
from cotenant_agent.device_plugin.registration import RETRY_S, UNHEARD_S, Registration
from cotenant_agent.gpus.readings import Gpu
from tests.agent.device_plugin.fake_kubelet import FakeKubelet
from tests.agent.dra.gpus import A, B


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: the path of a socket may have 107 characters."""
    with tempfile.TemporaryDirectory(prefix="dp") as made:
        yield Path(made) / "device-plugins"


@pytest.fixture
def plugin(folder: Path) -> Iterator[Registration]:
    made = Registration(folder)
    yield made
    made.stop()


def shares(gpu: Gpu, dimension: str = "memory", healthy: int = 1000) -> OfferedShares:
    name = f"gpu.cotenant.dev/{dimension}.{gpu.uuid.lower()}"
    return OfferedShares(resource=name, gpu=gpu, dimension=dimension, healthy=healthy)


MEMORY_A, COMPUTE_A, MEMORY_B = (
    "gpu.cotenant.dev/memory.gpu-a", "gpu.cotenant.dev/compute.gpu-a", "gpu.cotenant.dev/memory.gpu-b"
)  # fmt: skip
BOTH = (shares(A), shares(B))


def settle(plugin: Registration, kubelet: FakeKubelet, offered: tuple[OfferedShares, ...], now: float) -> None:
    plugin.turn(offered, now)
    kubelet.wait_for({one.resource: one.healthy for one in offered})
    plugin.turn(offered, now)


def test_every_resource_is_registered_and_followed(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, BOTH, 0.0)
    assert (plugin.reason, sorted(kubelet.registrations)) == ("", [MEMORY_A, MEMORY_B])
    assert list(kubelet.shares[MEMORY_A]) == [str(number) for number in range(1000)]
    kubelet.kill()


def test_a_share_is_exactly_its_own_gpus_device_nodes(folder: Path, plugin: Registration) -> None:
    """The socket determines the GPU, whatever is asked for. Shares of compute add no device nodes."""
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, (*BOTH, shares(A, "compute")), 0.0)
    of_driver = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"]
    assert kubelet.allocate(MEMORY_A, "0", "1") == [*of_driver, "/dev/nvidia3"]
    assert kubelet.allocate(MEMORY_B, "0") == [*of_driver, "/dev/nvidia4"]
    assert kubelet.allocate(COMPUTE_A, "0", "999") == []
    kubelet.kill()


def test_simulated_gpus_have_no_device_nodes(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, (shares(replace(A, minor=None)),), 0.0)
    assert kubelet.allocate(MEMORY_A, "7") == []
    kubelet.kill()


def test_a_change_is_passed_on_without_another_registration(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, BOTH, 0.0)
    settle(plugin, kubelet, (shares(A, healthy=0), shares(B, healthy=600)), 1.0)
    assert len(kubelet.registrations) == 2
    kubelet.kill()


def test_shares_are_taken_from_the_low_end_and_held_back_from_the_high_one(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, (shares(A, healthy=3),), 0.0)
    assert [name for name, health in kubelet.shares[MEMORY_A].items() if health == "Healthy"] == ["0", "1", "2"]
    wanted = {"available_deviceIDs": ["10", "9", "2", "100"], "must_include_deviceIDs": ["100"], "allocation_size": 3}
    answer = kubelet.call(
        MEMORY_A,
        "GetPreferredAllocation",
        "PreferredAllocationRequest",
        "PreferredAllocationResponse",
        container_requests=[wanted],
    )
    assert list(answer.container_responses[0].deviceIDs) == ["100", "2", "9"]
    kubelet.kill()


def test_a_kubelet_that_starts_again_is_registered_with_again(folder: Path, plugin: Registration) -> None:
    """A kubelet that starts has emptied the folder and knows no plugin."""
    first = FakeKubelet(folder)
    settle(plugin, first, BOTH, 0.0)
    first.kill()
    plugin.turn(BOTH, 1.0)
    assert "kubelet.sock" in plugin.reason
    second = FakeKubelet(folder)
    settle(plugin, second, BOTH, 2.0)
    assert (plugin.reason, len(second.registrations)) == ("", 2)
    assert second.allocate(MEMORY_B, "0")[-1] == "/dev/nvidia4"
    second.kill()


def test_a_socket_that_somebody_removed_is_made_again_once_the_kubelet_has_noticed(
    folder: Path, plugin: Registration
) -> None:
    """It would drop a socket that was registered before it noticed that the old one has closed."""
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, BOTH, 0.0)
    kubelet.endpoints[MEMORY_A].unlink()
    kubelet.notices.clear()
    plugin.turn(BOTH, 1.0)
    plugin.turn(BOTH, 1.0 + RETRY_S / 2)
    assert plugin.reason == f"the kubelet is to notice first that the socket of {MEMORY_A} has closed"
    kubelet.notices.set()
    kubelet.wait_for({MEMORY_B: 1000})
    settle(plugin, kubelet, BOTH, 1.0 + RETRY_S)
    assert (plugin.reason, kubelet.registrations) == ("", [MEMORY_A, MEMORY_B, MEMORY_A])
    kubelet.kill()


def test_a_resource_that_nobody_follows_is_registered_again_and_the_others_are_left_alone(
    folder: Path, plugin: Registration
) -> None:
    kubelet = FakeKubelet(folder, deaf_to=[MEMORY_A])
    plugin.turn(BOTH, 0.0)
    kubelet.wait_for({MEMORY_B: 1000})
    kubelet.notices.clear()
    kubelet.deaf_to = ()
    settle(plugin, kubelet, BOTH, UNHEARD_S + 1)
    assert (plugin.reason, kubelet.registrations) == ("", [MEMORY_A, MEMORY_B, MEMORY_A])
    kubelet.notices.set()
    kubelet.kill()


def test_a_refusal_of_one_resource_leaves_those_alone_that_were_registered(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, (shares(A),), 0.0)
    kubelet.refuses = "no room"
    plugin.turn(BOTH, 1.0)
    assert plugin.reason == "the kubelet does not register the shares: no room"
    kubelet.refuses = ""
    settle(plugin, kubelet, BOTH, 1.0 + RETRY_S)
    assert (plugin.reason, kubelet.registrations) == ("", [MEMORY_A, MEMORY_B])
    kubelet.kill()


def test_a_new_agent_takes_the_place_of_one_that_was_killed(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, BOTH, 0.0)
    plugin.stop()
    kubelet.wait_for({})
    for endpoint in kubelet.endpoints.values():
        endpoint.touch()  # it had no time to take its sockets away
    successor = Registration(folder)
    settle(successor, kubelet, BOTH, 1.0)
    assert (successor.reason, len(kubelet.registrations)) == ("", 4)
    successor.stop()
    kubelet.kill()


def test_without_a_kubelet_the_reason_names_the_folder(folder: Path, plugin: Registration) -> None:
    plugin.turn(BOTH, 0.0)
    assert plugin.reason == (f"there is no kubelet.sock in {folder}: the kubelet does not run, or has another folder")


def test_a_refusal_is_the_reason_and_is_tried_again(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder, refuses="the version is not supported")
    plugin.turn(BOTH, 0.0)
    assert plugin.reason == "the kubelet does not register the shares: the version is not supported"
    kubelet.refuses = ""
    plugin.turn(BOTH, RETRY_S - 1)
    assert kubelet.registrations == []
    settle(plugin, kubelet, BOTH, RETRY_S)
    assert plugin.reason == ""
    kubelet.kill()


def test_a_kubelet_that_registers_and_never_asks_is_no_path(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder, deaf_to=[MEMORY_A, MEMORY_B])
    plugin.turn(BOTH, 0.0)
    assert plugin.reason == "the kubelet has not asked for the shares yet"
    plugin.turn(BOTH, UNHEARD_S)
    assert len(kubelet.registrations) == 2
    kubelet.deaf_to = ()
    settle(plugin, kubelet, BOTH, UNHEARD_S + 1)
    assert (plugin.reason, len(kubelet.registrations)) == ("", 4)
    kubelet.kill()


def test_gpus_that_are_gone_are_offered_no_more(folder: Path, plugin: Registration) -> None:
    kubelet = FakeKubelet(folder)
    settle(plugin, kubelet, BOTH, 0.0)
    settle(plugin, kubelet, (shares(B),), 1.0)
    assert not kubelet.endpoints[MEMORY_A].exists()
    plugin.stop()
    kubelet.wait_for({})
    assert [path.name for path in folder.iterdir()] == ["kubelet.sock"]
    kubelet.kill()
