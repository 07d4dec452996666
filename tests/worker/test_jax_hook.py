"""`jax.distributed.initialize` as a rank's program meets it. Stand-ins with the signatures of old and new versions."""

from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_worker.hook.cotenant_shim import frameworks

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
