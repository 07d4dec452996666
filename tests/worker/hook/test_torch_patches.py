"""What a program asks of `init_process_group` where NCCL cannot work, through a stand-in for torch's module."""

import contextlib
import os
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import torch_patches
from cotenant_worker.host import layout
from cotenant_worker.ranks.leaving import LOADER_WORKER


@pytest.mark.parametrize(
    ("main", "arguments", "logged"),
    [
        pytest.param(True, {}, True, id="a rank"),
        pytest.param(False, {"rank": 0, "world_size": 2}, True, id="the first process of a rank's own group"),
        pytest.param(False, {"rank": 1, "world_size": 2}, False, id="the others of them"),
        pytest.param(False, {}, False, id="a process of rank 1 that goes by its variables"),
    ],
)
def test_that_nccl_was_replaced_is_said_once_whoever_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, main: bool, arguments: dict[str, Any], logged: bool
) -> None:
    asked: list[str] = []
    lines: list[str] = []
    c10d = SimpleNamespace(
        init_process_group=lambda backend, **_: asked.append(backend),
        rendezvous=None,
        get_world_size=lambda: 2,
        get_backend=lambda: "",
    )
    for name, value in {"COTENANT_COLLECTIVE": "gloo", "COTENANT_PREFLIGHT": "0", "RANK": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch_patches, "is_main_process", lambda: main)
    monkeypatch.setattr(torch_patches, "log_line", lines.append)
    monkeypatch.setattr(torch_patches, "is_training_process", lambda: False)
    monkeypatch.setattr(torch_patches, "confined_children", [])
    monkeypatch.setattr(torch_patches, "heartbeat", SimpleNamespace(rendezvous=contextlib.nullcontext))
    torch_patches.after_distributed(c10d)
    c10d.init_process_group("nccl", **arguments)
    assert asked == ["gloo"]
    assert bool(lines) is logged


@pytest.mark.parametrize(
    ("arguments", "world", "want"),
    [
        pytest.param(((), {"world_size": 8, "rank": 0}), "1", 8, id="named"),
        pytest.param((("tcp://10.0.0.1:1", None, 4), {}), "1", 4, id="by its place"),
        pytest.param(((), {}), "2", 2, id="the job's ranks"),
        pytest.param(((), {}), "", 0, id="not known"),
    ],
)
def test_how_many_a_process_group_waits_for(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[Any, Any], world: str, want: int
) -> None:
    monkeypatch.setenv("WORLD_SIZE", world)
    assert torch_patches._meeting(torch_patches._given(*arguments)) == want


@pytest.mark.parametrize(
    ("main", "ranks", "arguments", "own"),
    [
        pytest.param(False, "1", ((), {}), True, id="a process that the only rank has started"),
        pytest.param(False, "2", ((), {"world_size": 1, "rank": 0}), True, id="one that a rank of two has started"),
        pytest.param(True, "2", (("env://", None, 1, 0), {}), True, id="a rank that trains alone"),
        pytest.param(True, "1", ((), {}), False, id="the only rank, where others may look for it"),
        pytest.param(False, "2", ((), {}), False, id="the job's ranks"),
        pytest.param(False, "1", ((), {"init_method": "tcp://localhost:1"}), False, id="an address of its own"),
        pytest.param(False, "1", ((), {"store": "mine", "world_size": 1, "rank": 0}), False, id="a store of its own"),
    ],
)
def test_a_group_of_one_process_needs_no_port(
    monkeypatch: pytest.MonkeyPatch, main: bool, ranks: str, arguments: tuple[Any, Any], own: bool
) -> None:
    """Another process of the rank may already listen on the rank's port."""
    for name, value in {"COTENANT_RANK": "0", "COTENANT_RANKS": ranks, "RANK": "0", "WORLD_SIZE": ranks}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch_patches, "is_main_process", lambda: main)
    monkeypatch.setitem(sys.modules, "torch._C._distributed_c10d", SimpleNamespace(HashStore=lambda: "in memory"))
    given = torch_patches._given(*arguments)
    asked = torch_patches._undisturbed(lambda backend, **more: (backend, more))("gloo", **given)
    of_one = {"init_method": None, "store": "in memory", "rank": 0, "world_size": 1}
    assert asked == ("gloo", {**given, **of_one} if own else given)


EVALUATES = """
import os, subprocess, sys
import torch.distributed as dist
dist.init_process_group("gloo")
print(dist.get_rank(), dist.get_world_size(), sys.argv[1:], flush=True)
if len(sys.argv) == 1:
    sys.exit(subprocess.run([sys.executable, __file__, "evaluates"]).returncode)
"""


def test_a_program_may_evaluate_in_a_process_that_makes_a_group_too(tmp_path: Path) -> None:
    """Accelerate and Trainer make one wherever they find LOCAL_RANK."""
    (tmp_path / "train.py").write_text(EVALUATES)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    rank = {"COTENANT_RANK": "0", "COTENANT_RANKS": "1", "COTENANT_RESTART": "0", "COTENANT_STATE_DIR": str(tmp_path)}
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(layout.HOOK_DIR), **place, **rank}
    command = [sys.executable, str(tmp_path / "train.py")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines() == ["0 1 []", "0 1 ['evaluates']"], done.stderr


@pytest.mark.parametrize(
    ("attempt", "start", "method", "want"),
    [
        pytest.param("1", "0", "file:///data/meet", "file:///data/meet", id="the first start"),
        pytest.param("1", "2", "file:///data/meet", "file:///data/meet.1-2", id="ranks that started again in place"),
        pytest.param("3", "0", "file:///data/meet?world_size=2", "file:///data/meet.3-0?world_size=2", id="an attempt"),
        pytest.param("3", "0", "tcp://10.0.0.1:1", "tcp://10.0.0.1:1", id="no file"),
    ],
)
def test_ranks_meet_by_a_file_of_their_own_start(
    monkeypatch: pytest.MonkeyPatch, attempt: str, start: str, method: str, want: str
) -> None:
    """The file of killed ranks still has their addresses."""
    monkeypatch.setenv("COTENANT_ATTEMPT", attempt)
    monkeypatch.setenv("COTENANT_RESTART", start)
    init = torch_patches._undisturbed(lambda backend, **given: given)
    assert init("gloo", **torch_patches._given((method,), {})) == {"init_method": want}


@pytest.mark.parametrize(
    ("collective", "backend", "want"),
    [
        ("gloo", "nccl", "gloo"),
        ("gloo", "cpu:gloo,cuda:nccl", "cpu:gloo,cuda:gloo"),
        ("gloo", "nccl2", "gloo"),
        ("gloo", "cuda:nccl-lazy", "cuda:gloo"),
        ("gloo", "nccl-legacy", "gloo"),
        ("gloo", "gloo", "gloo"),
        ("gloo", None, None),
        ("nccl", "nccl", "nccl"),
    ],
)
def test_nccl_becomes_gloo_only_where_the_launcher_said_so(
    monkeypatch: pytest.MonkeyPatch, collective: str, backend: str | None, want: str | None
) -> None:
    monkeypatch.setenv("COTENANT_COLLECTIVE", collective)
    assert torch_patches.substitute_backend(backend) == want


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ("cpu:gloo,cuda:gloo", "gloo"),
        ("cpu:gloo,cuda:nccl", "nccl"),
        ("cuda:nccl2", "nccl"),
        ("cpu:gloo", "gloo"),
        ("cpu:gloo,cuda:ucc", "ucc"),
    ],
)
def test_what_a_process_group_is_made_of_is_read_where_the_model_is(config: str, want: str) -> None:
    """A group without a named backend has one for each kind of device, and no name of its own."""
    assert (
        torch_patches.transport(SimpleNamespace(get_backend_config=lambda: config, get_backend=lambda: "undefined"))
        == want
    )


def test_a_loader_worker_has_the_name_by_which_the_launcher_spares_it() -> None:
    played = (
        "from types import SimpleNamespace; from cotenant_worker.hook.cotenant_shim import torch_patches\n"
        "module = SimpleNamespace(_worker_loop=lambda *rest: print(open('/proc/self/comm').read().strip(), *rest))\n"
        "torch_patches.after_loader_worker(module); module._worker_loop(1, 2)"
    )
    done = subprocess.run([sys.executable, "-c", played], capture_output=True, text=True, check=True)
    assert done.stdout == f"{LOADER_WORKER} 1 2\n"


def test_the_count_of_collectives_is_taken_before_a_group_is_destroyed(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch_patches, "heartbeat", SimpleNamespace(count_collectives=lambda: done.append("count")))
    c10d = SimpleNamespace(
        init_process_group=None, rendezvous=None, destroy_process_group=lambda group: done.append(f"destroy {group}")
    )
    torch_patches.after_distributed(c10d)
    c10d.destroy_process_group(3)
    assert done == ["count", "destroy 3"]


def test_the_longest_timeout_of_the_groups_is_the_programs() -> None:
    def group(seconds: float) -> Any:
        backend = SimpleNamespace(options=SimpleNamespace(_timeout=timedelta(seconds=seconds)))
        return SimpleNamespace(_device_types=["cpu"], _get_backend=lambda device: backend)

    broken = SimpleNamespace(_device_types=["cpu"], _get_backend=lambda device: None)
    c10d = SimpleNamespace(_world=SimpleNamespace(pg_map=[group(1800), group(7200), broken]))
    assert torch_patches.longest_timeout_s(c10d) == 7200


ELSEWHERE = "10.0.0.1:24001"


@pytest.mark.parametrize(
    ("nodes", "arguments", "want"),
    [
        pytest.param("2", {}, ("10.0.0.1", "24001", None), id="by its variables"),
        pytest.param("1", {}, ("localhost", "12355", None), id="ranks of one pod meet there"),
        pytest.param("2", {"world_size": 2, "rank": 1}, ("10.0.0.1", "24001", None), id="with the rank that it has"),
        pytest.param("2", {"world_size": 1, "rank": 0}, ("localhost", "12355", None), id="a group of its own"),
        pytest.param("2", {"store": object()}, ("localhost", "12355", None), id="a store of its own"),
        pytest.param(
            "2",
            {"init_method": "tcp://127.0.0.1:1", "world_size": 2, "rank": 1},
            ("localhost", "12355", f"tcp://{ELSEWHERE}"),
            id="by an address",
        ),
        pytest.param(
            "2",
            {"init_method": "tcp://10.9.9.9:1", "world_size": 2, "rank": 1},
            ("localhost", "12355", "tcp://10.9.9.9:1"),
            id="by an address that others reach",
        ),
    ],
)
def test_ranks_in_several_pods_that_name_their_own_machine_meet_at_the_jobs_address(
    monkeypatch: pytest.MonkeyPatch, nodes: str, arguments: dict[str, Any], want: tuple[str | None, ...]
) -> None:
    place = {"RANK": "1", "COTENANT_RANK": "1", "WORLD_SIZE": "2", "COTENANT_RANKS": "2", "COTENANT_NODES": nodes}
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": "12355", "COTENANT_MASTER": ELSEWHERE}
    for name, value in (place | address).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch_patches, "log_line", lambda _: None)
    named = torch_patches.in_the_jobs_group(arguments)
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], named.get("init_method")) == want
    assert {**named, "init_method": None} == {**arguments, "init_method": None}


def test_an_address_of_ipv6_has_its_brackets_only_where_a_port_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"RANK": "0", "COTENANT_RANK": "0", "WORLD_SIZE": "2", "COTENANT_RANKS": "2", "COTENANT_NODES": "2"}
    for name, value in (place | {"MASTER_ADDR": "127.0.0.1", "COTENANT_MASTER": "[fd00::7]:24001"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MASTER_PORT", "1")
    monkeypatch.setattr(torch_patches, "log_line", lambda _: None)
    torch_patches.in_the_jobs_group({})
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("fd00::7", "24001")
    given = {"init_method": "tcp://localhost:1", "timeout": None, "world_size": 2, "rank": 0}
    assert torch_patches.in_the_jobs_group(given) == {**given, "init_method": "tcp://[fd00::7]:24001"}


@pytest.mark.parametrize(
    ("url", "want"),
    [
        pytest.param("tcp://fd00::7:24001", "tcp://[fd00::7]:24001", id="IPv6 as programs write it"),
        pytest.param("tcp://::1:1?rank=0", "tcp://[::1]:1?rank=0", id="with arguments"),
        pytest.param("tcp://[fd00::7]:24001", "tcp://[fd00::7]:24001", id="IPv6 in brackets"),
        pytest.param("tcp://10.0.0.1:24001", "tcp://10.0.0.1:24001", id="IPv4"),
        pytest.param("tcp://pod-0.job:24001", "tcp://pod-0.job:24001", id="a name"),
        pytest.param("file:///tmp/a:b:1", "file:///tmp/a:b:1", id="a file"),
    ],
)
def test_a_program_that_knows_no_ipv6_meets_at_such_an_address(url: str, want: str) -> None:
    """`init_method=f"tcp://{MASTER_ADDR}:{MASTER_PORT}"`, as in THUDM/slime#2151."""
    c10d = SimpleNamespace(rendezvous=lambda url, rank, **_: (url, rank))
    torch_patches._take_bare_ipv6(c10d)
    assert c10d.rendezvous(url, 0, timeout=None) == (want, 0)


@pytest.mark.parametrize(
    ("local", "arguments", "want"),
    [
        pytest.param("0", {"rank": 0, "world_size": 2}, 1, id="LOCAL_RANK, and the size of the job"),
        pytest.param("0", {"rank": 0}, 1, id="LOCAL_RANK alone"),
        pytest.param("1", {"rank": 1, "world_size": 2}, 1, id="LOCAL_RANK, which is its rank"),
        pytest.param("0", {"rank": 0, "world_size": 1}, 0, id="a group of its own"),
        pytest.param("1", {"rank": 0, "world_size": 2}, 0, id="neither of its numbers"),
        pytest.param("0", {}, None, id="none"),
        pytest.param("0", {"init_method": "env://"}, None, id="that of its variables"),
    ],
)
def test_local_rank_is_no_rank_where_several_have_the_same(
    monkeypatch: pytest.MonkeyPatch, local: str, arguments: dict[str, Any], want: int | None
) -> None:
    """cleanrl's ppo_atari_multigpu.py passes LOCAL_RANK, which is right under torchrun on one machine."""
    place = {"RANK": "1", "COTENANT_RANK": "1", "WORLD_SIZE": "2", "COTENANT_RANKS": "2", "COTENANT_NODES": "1"}
    for name, value in (place | {"LOCAL_RANK": local, "MASTER_ADDR": "10.0.0.1"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(torch_patches, "log_line", lambda _: None)
    assert torch_patches.in_the_jobs_group(arguments).get("rank") == want
    monkeypatch.setenv("RANK", "0")  # the program's doing
    assert torch_patches.in_the_jobs_group({}).get("rank") == (1 if local == "0" else None)
