"""Paths and ports of a worker pod."""

from __future__ import annotations

import glob
from pathlib import Path

import pytest

from cotenant_worker.host import layout


def test_everything_that_a_pod_writes_is_under_its_state_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(layout.ENV_STATE, "/state")
    assert {
        layout.state_dir(),
        layout.work_dir(),
        layout.socket_path(),
        layout.preempt_file(),
        layout.counters_path(3),
        layout.errors_dir(3, 2),
    } == {
        Path("/state"),
        Path("/state/work"),
        Path("/state/launcher.sock"),
        Path("/state/preempt.json"),
        Path("/state/rank-3.counters"),
        Path("/state/errors-3-2"),
    }


def test_without_a_choice_the_state_is_in_tmp_where_rm_of_all_does_not_find_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(layout.ENV_STATE, raising=False)
    assert layout.state_dir() == Path("/tmp/.cotenant")
    assert layout.state_dir() not in [Path(name) for name in glob.glob("/tmp/*")]


def test_the_ports_of_a_pod_are_all_different() -> None:
    low, high = layout.WORKER_PORTS
    ranks = 64
    ports = [
        *(layout.RAY_PORT, layout.NODE_MANAGER_PORT, layout.OBJECT_MANAGER_PORT, layout.RUNTIME_ENV_PORT),
        *range(low, high + 1),
        *range(layout.TF_PORT, layout.TF_PORT + ranks),
        *(layout.SERVER_PORT, layout.LINK_PORT),
    ]
    assert len(set(ports)) == len(ports)
    assert not {6379, 12355, 20001, 29500} & set(ports), "what run scripts take as a matter of habit"


def test_the_hook_of_ranks_is_a_sitecustomize() -> None:
    assert (layout.HOOK_DIR / "sitecustomize.py").is_file()
    assert (layout.HOOK_DIR / "cotenant_shim" / "__init__.py").is_file()
