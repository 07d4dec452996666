"""What the agent has daemons do follows from the claims that are prepared, whoever of the two was killed meanwhile."""

from __future__ import annotations

import os
import threading
import time
import tomllib
from collections.abc import Callable, Iterator

import pytest

from cotenant_agent.dra.prepared_claims import RefusedClaimError
from cotenant_agent.enforcement.compute_limits import AskedShare, DaemonReading
from cotenant_agent.gpus.readings import Gpu
from cotenant_agent.mps.configuration import NamespaceLimits, gpu_folder
from cotenant_agent.mps.keeper import REPORT, Keeper
from cotenant_agent.mps.namespaces import SILENT_S, ComputeNamespaces, asked, wanted
from tests.agent.mps.world import OTHER, UUID, World, claim

FIRST = claim("aa", (UUID, 32_000, 400))
SECOND = claim("bb", (UUID, 16_000, 205), (OTHER, 16_000, 205))


@pytest.fixture
def kept(world: World) -> Iterator[Keeper]:
    """A keeper that goes its rounds."""
    keeper, stop = Keeper(world.root), threading.Event()

    def rounds() -> None:
        at = 0.0
        while not stop.wait(0.02):
            keeper.turn(at)
            at += 1.0

    thread = threading.Thread(target=rounds)
    thread.start()
    yield keeper
    stop.set()
    thread.join()
    keeper.stop()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_every_claim_is_a_namespace_on_each_of_its_gpus_with_its_share_as_ceiling(world: World) -> None:
    twice = claim("cc", (OTHER, 1_000, 300), (OTHER, 1_000, 300))
    found = {uuid: dict(one.namespaces) for uuid, one in wanted(world.root, [FIRST, SECOND, twice]).items()}
    assert found == {
        UUID: {
            "caa": NamespaceLimits(compute_percent=40, memory_mib=32_000),
            "cbb": NamespaceLimits(compute_percent=20, memory_mib=16_000),
        },
        OTHER: {
            "cbb": NamespaceLimits(compute_percent=20, memory_mib=16_000),
            "ccc": NamespaceLimits(compute_percent=60, memory_mib=2_000),
        },
    }
    assert asked([FIRST, twice]) == (
        AskedShare("pod-aa", UUID, "caa", 400),
        AskedShare("pod-cc", OTHER, "ccc", 600),
    )


def test_a_claim_without_namespace_is_nothing_to_mps(world: World) -> None:
    whole = claim("dd", (UUID, 80_000, 1000), namespace="")
    assert (wanted(world.root, [whole]), asked([whole])) == ({}, ())


def test_files_are_exactly_those_of_the_claims_and_an_agent_that_starts_again_changes_none(world: World) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    namespaces.hold([FIRST, SECOND])
    files = {path: (path.read_text(), path.stat().st_mtime_ns) for path in world.root.glob("*/mps.toml")}
    assert len(files) == 2
    again = ComputeNamespaces(world.root, world.control)
    again.hold([FIRST, SECOND])
    assert {path: (path.read_text(), path.stat().st_mtime_ns) for path in world.root.glob("*/mps.toml")} == files
    again.hold([FIRST])
    (left,) = world.root.glob("*/mps.toml")
    assert list(tomllib.loads(left.read_text())["servers"]["gpu"]["namespaces"]) == ["caa"]
    again.hold([])
    assert not list(world.root.glob("*/mps.toml"))


def test_a_file_that_could_not_be_written_is_written_when_the_kubelet_asks_again(world: World) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    folder = gpu_folder(world.root, UUID).path
    folder.write_text("in the way")
    with pytest.raises(FileExistsError):
        namespaces.hold([FIRST])
    folder.unlink()
    with pytest.raises(RefusedClaimError):
        namespaces.settle(FIRST, 0.0)
    assert list(tomllib.loads((folder / "mps.toml").read_text())["servers"]["gpu"]["namespaces"]) == ["caa"]


def test_a_claim_is_settled_once_its_namespace_is_there_also_on_a_daemon_that_runs_already(
    world: World, kept: Keeper
) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    namespaces.hold([FIRST])
    namespaces.settle(FIRST, 60.0)
    assert namespaces.reason() == ""
    namespaces.hold([FIRST, SECOND])
    namespaces.settle(SECOND, 60.0)
    for uuid in (UUID, OTHER):
        assert (gpu_folder(world.root, uuid).namespace("cbb") / "control").exists()
    assert namespaces.pipes(SECOND) == {
        uuid: str(gpu_folder(world.root, uuid).namespace("cbb")) for uuid in (UUID, OTHER)
    }


def test_a_whole_gpu_is_settled_once_mps_has_left_it(world: World, kept: Keeper) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    namespaces.hold([FIRST])
    namespaces.settle(FIRST, 60.0)
    whole = claim("dd", (UUID, 80_000, 1000), namespace="")
    with pytest.raises(RefusedClaimError, match=f"MPS still serves GPU {UUID}, which is to be had whole"):
        namespaces.settle(whole, 0.0)
    namespaces.hold([whole])
    namespaces.settle(whole, 60.0)
    assert world.modes()[-1] == f"--id={UUID} --compute-mode=DEFAULT"


def test_nobody_is_let_on_a_share_without_a_keeper_and_the_kubelet_is_told_why(world: World) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    namespaces.hold([FIRST])
    with pytest.raises(RefusedClaimError, match=r"cannot connect .*the DaemonSet cotenant-mps does not run here"):
        namespaces.settle(FIRST, 0.0)


def test_a_keeper_is_there_as_long_as_it_is_heard_of_and_its_trouble_is_the_node_s(world: World) -> None:
    now = [time.time()]
    namespaces = ComputeNamespaces(world.root, world.control, clock=lambda: now[0])
    assert (
        namespaces.reason() == f"nobody keeps MPS daemons in {world.root}: the DaemonSet cotenant-mps does not run here"
    )
    Keeper(world.root).turn(0.0)
    assert namespaces.reason() == ""
    now[0] += SILENT_S + 10
    assert namespaces.reason().startswith(f"nobody has kept the MPS daemons in {world.root} for 4")
    (world.root / REPORT).write_text('{"a": "no CUDA-capable device", "b": "no CUDA-capable device"}')
    os.utime(world.root / REPORT, (now[0], now[0]))
    assert namespaces.reason() == "MPS: no CUDA-capable device"


def test_a_look_mends_what_a_daemon_lacks_and_reads_back_what_it_has(world: World, kept: Keeper) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    namespaces.hold([FIRST, SECOND])
    for one in (FIRST, SECOND):
        namespaces.settle(one, 60.0)
    world.tell("clients", "51=caa", "52=cbb")
    namespaces.hold([FIRST])  # the other's processes are about to end
    namespaces.look()
    assert namespaces.readings == {
        UUID: DaemonReading(
            server_pid=4711,
            percents={"caa": 40, "cbb": 20, "default": 1},
            clients={51: "caa", 52: "cbb"},
            expected=frozenset({"caa"}),
        )
    }
    world.tell("clients", "51=caa")
    namespaces.look()
    namespaces.look()
    assert namespaces.readings[UUID].percents == {"caa": 40, "default": 1}


def test_what_a_look_has_made_is_in_what_it_reads(world: World, kept: Keeper) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    namespaces.hold([FIRST])
    namespaces.settle(FIRST, 60.0)
    namespaces.hold([FIRST, SECOND])
    namespaces.look()
    reading = namespaces.readings[UUID]
    assert (reading.percents, reading.expected) == ({"caa": 40, "cbb": 20, "default": 1}, frozenset({"caa", "cbb"}))


def test_a_daemon_that_does_not_answer_has_no_reading(world: World) -> None:
    namespaces = ComputeNamespaces(world.root, world.control)
    namespaces.hold([FIRST])
    namespaces.look()
    assert namespaces.readings == {}


def test_a_claim_gets_a_namespace_unless_somebody_has_the_gpu_without_one(world: World) -> None:
    gpu = Gpu(uuid=UUID, index=0, gpu_class="H100", memory_mib=80_000)
    bare = claim("ee", (UUID, 16_000, 200), namespace="")
    namespaces = ComputeNamespaces(world.root, world.control)

    def given(*others: str) -> str:
        before = {name: claim("x", (UUID, 1_000, 100), namespace=name) for name in others}
        return namespaces.assigned(before, bare, [gpu]).devices[0].namespace

    assert (given(), given("cx"), given("")) == ("cee", "cee", "")
    namespaces.starting = lambda: False
    assert (given(), given("cx")) == ("", "cee")


@pytest.mark.parametrize(
    ("held", "name"),
    [((80_000, 1000), ""), ((80_000, 999), "cff"), ((79_999, 1000), "cff"), ((16_000, 200), "cff")],
)
def test_who_leaves_nothing_of_a_gpu_to_others_needs_no_ceiling(world: World, held: tuple[int, int], name: str) -> None:
    gpu = Gpu(uuid=UUID, index=0, gpu_class="H100", memory_mib=80_000)
    made = ComputeNamespaces(world.root).assigned({}, claim("ff", (UUID, *held), namespace=""), [gpu])
    assert made.devices[0].namespace == name
    instance = Gpu(uuid=UUID, index=0, gpu_class="H100-1g", memory_mib=80_000, parent="GPU-x")
    assert (
        ComputeNamespaces(world.root)
        .assigned({}, claim("ff", (UUID, *held), namespace=""), [instance])
        .devices[0]
        .namespace
        == ""
    )
