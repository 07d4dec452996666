"""`ray.init` of a program that runs once per rank. A stand-in for Ray's module."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import own_ray
from cotenant_worker.hook.cotenant_shim.launcher_client import launcher


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    texts: list[str] = []
    monkeypatch.setattr(launcher, "warn", lambda key, text: texts.append(f"{key}: {text}"))
    return texts


def hooked(monkeypatch: pytest.MonkeyPatch, ranks: int, **env: str) -> Any:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(own_ray, "_started", [])
    own = {"COTENANT_RANK": "0", "COTENANT_RANKS": str(ranks)} if ranks else {}
    for name, value in {**own, **env}.items():
        monkeypatch.setenv(name, value)
    module = SimpleNamespace(init=lambda address=None, **options: (address, options))
    own_ray.after_ray_worker(module)
    return module.init


@pytest.mark.parametrize(
    ("ranks", "given", "env"),
    [
        pytest.param(1, None, {}, id="the only rank"),
        pytest.param(1, "auto", {}, id="the only rank, whose script may have started a cluster"),
        pytest.param(0, "auto", {}, id="a program of mode rayTrain, which is no rank"),
        pytest.param(2, "10.9.9.9:6379", {}, id="a cluster that the program knows"),
        pytest.param(2, None, {"RAY_ADDRESS": "10.9.9.9:6379"}, id="one that its environment names"),
    ],
)
def test_a_ray_that_is_meant_so_is_started_as_the_program_says(
    monkeypatch: pytest.MonkeyPatch, warned: list[str], ranks: int, given: str | None, env: dict[str, str]
) -> None:
    assert hooked(monkeypatch, ranks, **env)(given, num_cpus=2) == (given, {"num_cpus": 2})
    assert warned == []


@pytest.mark.parametrize("given", [None, "local"])
def test_ranks_that_each_start_a_ray_of_their_own_are_told(
    monkeypatch: pytest.MonkeyPatch, warned: list[str], given: str | None
) -> None:
    assert hooked(monkeypatch, 2)(given) == (given, {})
    [text] = warned
    assert text.startswith("ray-clusters: each of the 2 ranks starts a Ray cluster of its own")
    assert "runtime.rayTrain: true" in text


def test_the_jobs_own_ray_is_not_found_and_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConnectionError, match=r"rank 0 finds no Ray cluster.*set runtime\.rayTrain: true"):
        hooked(monkeypatch, 2)("auto")


def test_a_cluster_that_the_script_has_made_over_all_pods_is_joined(
    monkeypatch: pytest.MonkeyPatch, warned: list[str]
) -> None:
    """Scripts of verl and OpenRLHF: `ray start --head` in rank 0, `ray start --address` in the others."""
    monkeypatch.setenv("COTENANT_RANK", "0")
    monkeypatch.setenv("COTENANT_RANKS", "2")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    module = SimpleNamespace(
        init=lambda address=None: address,
        services=SimpleNamespace(find_bootstrap_address=lambda folder: "10.0.0.1:6379"),
        _global_node=SimpleNamespace(head=False),
    )
    own_ray.after_ray_worker(module)
    assert (module.init("auto"), module.init()) == ("10.0.0.1:6379", None)
    assert (own_ray._started, warned) == ([], [])


class PsutilProcess:
    """Plays psutil's. A process that has ended, or is another user's, gives nothing."""

    def __init__(self, env: dict[str, str] | None) -> None:
        self._env = env

    def environ(self) -> dict[str, str]:
        if self._env is None:
            raise ProcessLookupError
        return self._env


@pytest.mark.parametrize(("ranks", "stopped"), [(2, [1]), (0, [0, 1, 2])], ids=["in a rank", "in rayTrain's program"])
def test_ray_stop_in_a_rank_ends_what_ranks_started(
    monkeypatch: pytest.MonkeyPatch, ranks: int, stopped: list[int]
) -> None:
    hooked(monkeypatch, ranks)
    if not ranks:
        monkeypatch.delenv("COTENANT_RANK", raising=False)
        monkeypatch.delenv("RANK", raising=False)
    all_of_them = [PsutilProcess({"RAY_AUTH_MODE": "t"}), PsutilProcess({"COTENANT_RANK": "1"}), PsutilProcess(None)]
    psutil = SimpleNamespace(process_iter=lambda attrs: all_of_them, Error=ProcessLookupError, wait_procs=len)
    module = SimpleNamespace(psutil=psutil)
    own_ray.after_ray_commands(module)
    assert [all_of_them.index(each) for each in module.psutil.process_iter(["name"])] == stopped
    assert module.psutil.wait_procs is len


class RayTaskError(Exception):
    """Plays Ray's: the exception of a task, with its traceback as text."""

    __module__ = "ray.exceptions"

    def __init__(self, cause: BaseException, traceback_str: str) -> None:
        super().__init__(traceback_str)
        self.cause, self.traceback_str = cause, traceback_str


class WorkerGroupError(Exception):
    __module__ = "ray.train.v2.api.exceptions"

    def __init__(self, failures: dict[int, BaseException]) -> None:
        super().__init__("Training failed due to worker errors")
        self.worker_failures = failures


REMOTE = 'ray::load()\n  File "/opt/lib.py", line 3, in call\n  File "/workspace/train.py", line 9, in load\nValueError'
EMPTY = ValueError("empty")
FRAMES = [("/opt/lib.py", 3, "call"), ("/workspace/train.py", 9, "load")]


@pytest.mark.parametrize(
    ("error", "found"),
    [
        pytest.param(RayTaskError(EMPTY, REMOTE), (EMPTY, FRAMES), id="of a task"),
        pytest.param(
            WorkerGroupError({1: RuntimeError("later"), 0: RayTaskError(EMPTY, REMOTE)}),
            (EMPTY, FRAMES),
            id="of the first worker of Ray Train",
        ),
        pytest.param(EMPTY, (EMPTY, []), id="any other"),
    ],
)
def test_of_an_exception_that_ray_brings_the_programs_own_is_told(error: BaseException, found: Any) -> None:
    assert own_ray.brought(error) == found


class Scaling(SimpleNamespace):
    """Plays Ray Train's: a number of workers, and what they take together."""

    def __init__(self, least: int, most: int, **each: float) -> None:
        super().__init__(min_workers=least, max_workers=most)
        self.total_resources = {name: amount * most for name, amount in each.items()}


def trained(monkeypatch: pytest.MonkeyPatch, scaling: Scaling, *, address: str | None = None, ranks: int = 1) -> str:
    """What `fit` gives in a Ray with four CPUs and one GPU."""
    init = hooked(monkeypatch, ranks)
    there = {"CPU": 4.0, "GPU": 1.0}
    ray = SimpleNamespace(init=init, is_initialized=lambda: address is not None, cluster_resources=lambda: there)
    monkeypatch.setitem(sys.modules, "ray", ray)
    trainer = type("DataParallelTrainer", (), {"fit": lambda self: "trained", "scaling_config": scaling})
    own_ray.after_ray_trainer(SimpleNamespace(DataParallelTrainer=trainer))
    if address is not None:
        init(address)
    found: str = trainer().fit()
    return found


@pytest.mark.parametrize(
    ("scaling", "address", "ranks"),
    [
        pytest.param(Scaling(4, 4, CPU=1), None, 1, id="what there is"),
        pytest.param(Scaling(2, 8, CPU=2), None, 1, id="an elastic one begins with fewer"),
        pytest.param(Scaling(0, 0, CPU=1), None, 1, id="in this process"),
        pytest.param(Scaling(8, 8, CPU=1), "10.9.9.9:6379", 1, id="another cluster may get more"),
        pytest.param(Scaling(8, 8, CPU=1), None, 0, id="the cluster of a job of mode rayTrain"),
    ],
)
def test_a_training_that_ray_can_start_is_started(
    monkeypatch: pytest.MonkeyPatch, scaling: Scaling, address: str | None, ranks: int
) -> None:
    assert trained(monkeypatch, scaling, address=address, ranks=ranks) == "trained"


@pytest.mark.parametrize(
    ("scaling", "address", "said"),
    [
        (Scaling(8, 8, CPU=1), None, "asks for 8 CPU, and the Ray of rank 0 has 4"),
        (Scaling(2, 2, CPU=1, GPU=1), "local", "asks for 2 GPU, and the Ray of rank 0 has 1"),
        (Scaling(1, 2, CPU=1, TPU=1), "auto", "asks for 1 TPU, and the Ray of rank 0 has 0"),
    ],
    ids=["CPUs", "GPUs", "what is not there at all"],
)
def test_a_training_that_ray_could_never_start_ends_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, scaling: Scaling, address: str | None, said: str
) -> None:
    with pytest.raises(RuntimeError, match=rf"Ray Train {said}\..*set runtime\.rayTrain: true"):
        trained(monkeypatch, scaling, address=address)
