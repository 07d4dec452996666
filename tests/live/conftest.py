"""Clusters for live tests. The shared one starts at most once in a process, on first use, and ends with the run."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import psutil
import pytest

from cotenant_local.host.patience import stretched

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

NODES, GPUS = 2, 4
WAITING = ("cluster", "sandbox", "ray", "frameworks", "containers", "browser", "s3")
"""Marks of tests that wait for processes of this machine."""

SHARED = f"test-{os.getpid()}"
"""Name of the cluster that the tests of this process share, whether it is up or not."""


def has_own_cluster(item: pytest.Item) -> bool:
    shared = {"api_server", "local_cluster"} & set(getattr(item, "fixturenames", ()))
    return not shared and item.nodeid.startswith(("tests/live/e2e/", "tests/live/local/whole/"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep, with `--oldest`, tests of the API server alone: documents, policies, jobs on played nodes.

    Tests with clusters of their own go last, and end the one that all others share: a cluster that nobody needs any
    more costs a small machine a tenth of it, and instances of inotify, of which Linux gives out few.
    """
    items.sort(key=lambda item: (has_own_cluster(item), "installed" in getattr(item, "fixturenames", ())))
    if config.getoption("--oldest"):
        asks = [item for item in items if {"api_server", "local_cluster"} & set(getattr(item, "fixturenames", ()))]
        kept = [item for item in asks if "local_cluster" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Give a test that waits for processes the time that they need on a machine as busy as this one is now."""
    if has_own_cluster(item):
        from cotenant_local.cluster import lifecycle

        lifecycle.down(SHARED)
    if any(item.get_closest_marker(name) for name in WAITING):
        own = item.get_closest_marker("timeout")
        seconds = own.args[0] if own and own.args else item.config.getini("timeout")
        item.add_marker(pytest.mark.timeout(stretched(float(seconds))), append=False)
    return (yield)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the programs of clusters before the first test: that takes many minutes once, a test has five.

    Progress goes to the terminal itself: a quarter of an hour of silence would look like a hang.
    """
    needs = any(item.get_closest_marker(name) for item in session.items for name in ("cluster", "sandbox"))
    if not needs or session.config.option.collectonly:
        return
    from cotenant_local.programs import build

    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        build.programs()
        build.stubs_path()
        if session.config.getoption("--oldest"):
            build.oldest()


@pytest.fixture(scope="session")
def local_cluster() -> Iterator["Cluster"]:
    """A real cluster of two nodes with four simulated GPUs each: `.kubeconfig`, `.kubectl(...)`, `.command(...)`."""
    yield from _cluster(NODES)


@pytest.fixture(scope="session")
def api_server(request: pytest.FixtureRequest) -> Iterator["Cluster"]:
    """A real API server, scheduler and controllers; nodes only if another test of this run needs `local_cluster`.

    With `--oldest` they are of the oldest Kubernetes that Cotenant promises to run on.
    """
    if request.config.getoption("--oldest"):
        yield from _cluster(0, oldest=True)
    elif any("local_cluster" in getattr(item, "fixturenames", ()) for item in request.session.items):
        yield request.getfixturevalue("local_cluster")
    else:
        yield from _cluster(0)


def _cluster(nodes: int, *, oldest: bool = False) -> Iterator["Cluster"]:
    from cotenant_local.cluster import lifecycle, spec

    for left in set(lifecycle.known()) - set(lifecycle.running()):
        # One that is just being made, by another process of this run, is not up yet either.
        if left.startswith("test-") and not psutil.pid_exists(int(left.removeprefix("test-"))):
            lifecycle.down(left)
    wanted = spec.uniform(nodes, gpus=GPUS, gpu_class="H100", gpu_memory="80Gi")
    wanted = wanted.model_copy(update={"oldest": oldest})
    cluster = lifecycle.up(SHARED, wanted, attached=True)
    try:
        yield cluster
    finally:
        lifecycle.down(SHARED)
