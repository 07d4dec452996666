"""JAX as a rank's program meets it. Stand-ins with the signatures of old and new versions."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import frameworks
from cotenant_worker.hook.cotenant_shim.heartbeat import Heartbeat
from cotenant_worker.hook.cotenant_shim.launcher_client import launcher
from cotenant_worker.host import layout

RANK = {"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "10.0.0.1:24002"}
OURS = {"coordinator_address": "10.0.0.1:24002", "num_processes": 2, "process_id": 1}


def new(  # noqa: PLR0917 - as in jax itself
    coordinator_address: Any = None,
    num_processes: Any = None,
    process_id: Any = None,
    local_device_ids: Any = None,
    cluster_detection_method: Any = None,
    initialization_timeout: int = 300,
    coordinator_bind_address: Any = None,
) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value not in (None, 300)}


def old(coordinator_address: Any = None, num_processes: Any = None, process_id: Any = None) -> dict[str, Any]:
    return {name: value for name, value in locals().items() if value is not None}


def hooked(original: Any, monkeypatch: pytest.MonkeyPatch, rank: dict[str, str]) -> Any:
    for name, value in rank.items():
        monkeypatch.setenv(name, value)
    module = SimpleNamespace(initialize=original)
    frameworks.after_jax_distributed(module)
    return module.initialize


def test_without_arguments_it_joins_the_jobs_world_and_looks_for_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    found = hooked(new, monkeypatch, RANK)()
    bind = {"coordinator_bind_address": "10.0.0.1:24002"}
    assert found == {**OURS, **bind, "cluster_detection_method": "deactivate"}


def test_what_the_program_says_itself_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    found = hooked(new, monkeypatch, RANK)("10.0.0.9:1", 4, process_id=3, cluster_detection_method="mpi4py")
    assert found == {
        "coordinator_address": "10.0.0.9:1",
        "num_processes": 4,
        "process_id": 3,
        "cluster_detection_method": "mpi4py",
    }


def test_a_version_that_knows_fewer_words_is_told_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert hooked(old, monkeypatch, RANK)() == OURS


def test_outside_a_rank_nothing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in RANK:
        monkeypatch.delenv(name, raising=False)
    assert hooked(new, monkeypatch, {})(num_processes=1) == {"num_processes": 1}


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        pytest.param({}, [], id="nothing"),
        pytest.param(OURS, [], id="what is so"),
        pytest.param({"num_processes": 4}, ["num_processes=4, but the job has 2 ranks"], id="more than there are"),
        pytest.param({"process_id": 0}, ["process_id=0, but this is rank 1"], id="another one's place"),
        pytest.param(
            {"coordinator_address": "localhost:10000"},
            ["coordinator_address=localhost:10000, but the job's ranks are in 2 pods"],
            id="a place that the other pods do not reach",
        ),
    ],
)
def test_arguments_by_which_the_ranks_would_not_meet_are_objected_to(given: dict[str, Any], wrong: list[str]) -> None:
    assert frameworks._mismatches(given, RANK | {"COTENANT_NODES": "2"}) == wrong


def test_a_rank_that_waits_for_the_others_in_initialize_is_known_to_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    heartbeat = Heartbeat()
    monkeypatch.setattr(heartbeat, "start", lambda: None)
    monkeypatch.setattr(frameworks, "heartbeat", heartbeat)
    monkeypatch.setattr(frameworks, "is_main_process", lambda: True)
    monkeypatch.setenv("COTENANT_RANKS", "2")
    seen: list[tuple[bool, int]] = []

    def initialize(num_processes: Any = None, process_id: Any = None) -> None:
        seen.append((heartbeat.in_rendezvous, heartbeat.rendezvous_count))

    hooked(initialize, monkeypatch, RANK)()
    assert (seen, heartbeat.in_rendezvous) == ([(True, 1)], False)
    assert heartbeat._beat(-1)["uncounted"]
    heartbeat.reports = 1
    assert not heartbeat._beat(-1)["uncounted"]


STAND_IN = {
    "jax/__init__.py": "",
    "jax/_src/__init__.py": "",
    "jax/_src/distributed.py": "class State:\n    client = service = None\n\n"
    "    def shutdown(self):\n        print('waits for all')\n\n\nglobal_state = State()\n",
    "jax/_src/xla_bridge.py": "def _init_backend(platform):\n    return platform\n\n\n"
    "def devices():\n    return [_init_backend('cpu'), _init_backend('cuda')]\n",
}
PROGRAM = """
import sys
from jax._src import distributed, xla_bridge

if "meets" in sys.argv:
    distributed.global_state.client = object()
if "computes" in sys.argv:
    print(xla_bridge.devices())
if "own group" in sys.argv:
    sys.modules["cotenant_shim"].rank_heartbeat.collectives["own group"] = lambda: 1
"""


@pytest.mark.parametrize(
    ("words", "ranks", "warned"),
    [
        pytest.param(["computes"], "2", True, id="each computes for itself"),
        pytest.param(["computes"], "1", False, id="one rank"),
        pytest.param([], "2", False, id="only imported"),
        pytest.param(["meets", "computes"], "2", False, id="jax.distributed.initialize"),
        pytest.param(["computes", "own group"], "2", False, id="our all_reduce"),
    ],
)
def test_ranks_whose_jax_does_not_meet_are_told(tmp_path: Path, words: list[str], ranks: str, warned: bool) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [sys.executable, str(tmp_path / "train.py"), *words]
    done = subprocess.run(command, env=rank_of(ranks, tmp_path), capture_output=True, text=True, timeout=60, check=True)
    text = f"the {ranks} ranks train {ranks} models, each its own: JAX made its devices without"
    assert done.stderr.count(text) == warned, done.stderr


def rank_of(ranks: str, tmp_path: Path) -> dict[str, str]:
    """The environment of rank 0, in which JAX is the stand-in."""
    for name, text in STAND_IN.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return {
        **os.environ,
        "PYTHONPATH": f"{layout.HOOK_DIR}:{tmp_path}",
        "COTENANT_STATE_DIR": str(tmp_path),
        "COTENANT_RESTART": "0",
        "COTENANT_RANK": "0",
        "COTENANT_RANKS": ranks,
        **{"RANK": "0", "WORLD_SIZE": ranks},
    }


ENDS = """
import atexit, sys
from jax._src.distributed import global_state

global_state.client = object()
atexit.register(global_state.shutdown)
if "raises" in sys.argv:
    raise ValueError("a bad batch")
if "leaves" in sys.argv:
    sys.exit(3)
"""
AS_A_RANK = (
    "import sys; from cotenant_worker.ranks.program import Program;"
    " from cotenant_worker.ranks.program_runner import run; sys.exit(run(Program('script', tuple(sys.argv[1:]))))"
)


@pytest.mark.parametrize(
    ("how", "code", "begins", "waits"),
    [
        pytest.param("ends", 0, ["-c", AS_A_RANK], True, id="all is well"),
        pytest.param("raises", 1, ["-c", AS_A_RANK], False, id="it raised"),
        pytest.param("leaves", 3, ["-c", AS_A_RANK], False, id="it left with a code of its own"),
        pytest.param("raises", 1, [], False, id="it raised, in an interpreter that it started itself"),
    ],
)
def test_a_rank_that_failed_does_not_wait_at_its_end_for_the_others(
    tmp_path: Path, how: str, code: int, begins: list[str], waits: bool
) -> None:
    (tmp_path / "train.py").write_text(ENDS)
    command = [sys.executable, *begins, str(tmp_path / "train.py"), how]
    env = rank_of("2", tmp_path)
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (code, "waits for all\n" if waits else ""), done.stderr


def test_a_rank_that_waits_long_at_its_end_says_so_and_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    arrived = threading.Event()

    def send(message: dict[str, Any]) -> None:
        texts.append(message["text"])
        arrived.set()

    class State:
        client = object()

        def shutdown(self) -> None:
            assert arrived.wait(60)

    monkeypatch.setattr(frameworks, "_SHUTDOWN_WARNING_S", 0.0)
    monkeypatch.setattr(frameworks, "is_main_process", lambda: True)
    monkeypatch.setattr(launcher, "send", send)
    frameworks.after_jax_state(SimpleNamespace(State=State))
    State().shutdown()
    assert texts == ["rank 0 has come to its end and waits for the others in jax.distributed.shutdown()", ""]
