"""`make test-for` finds the tests of a file by its name and its folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract.mirror import importers, mirror

TESTS = {
    "tests/core/actions/test_evict.py": "from cotenant.core.actions import evict\n",
    "tests/controller/test_evict.py": "",
    "tests/controller/execution/writes/executor/test_pods.py": "",
    "tests/worker/ranks/test_lone.py": "from cotenant.core.model.moment import at\n",
    "tests/cli/sdk/test_client.py": "",
    "local/tests/node/test_init.py": "",
    "tests/live/core/test_moment.py": "",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for path, text in TESTS.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("operator/cotenant/core/actions/evict.py", ["tests/core/actions/test_evict.py"]),
        ("operator/cotenant/controller/execution/writes/executor.py", ["tests/controller/execution/writes/executor"]),
        ("operator/cotenant/core/actions/__init__.py", ["tests/core/actions"]),
        ("operator/cotenant/sdk/client.py", ["tests/cli/sdk/test_client.py"]),
        ("local/cotenant_local/node/init.py", ["local/tests/node/test_init.py"]),
        ("worker/cotenant_worker/pid1/lone.py", ["tests/worker/ranks/test_lone.py"]),
        ("tests/controller/test_evict.py", ["tests/controller/test_evict.py"]),
        ("operator/cotenant/core/model/moment.py", []),
        ("tests/support/pod.py", []),
    ],
    ids=[
        "the file of its name in the folder that mirrors its own",
        "the folder of its name",
        "a package has the tests of its folder",
        "packages beside the command",
        "the local cluster has its tests beside it",
        "elsewhere, where its own folder has none",
        "a test is its own",
        "live tests are not plain ones",
        "support has none",
    ],
)
def test_the_tests_of_a_file(root: Path, source: str, tests: list[str]) -> None:
    assert mirror(Path(source), root) == [Path(one) for one in tests]


@pytest.mark.parametrize(
    ("source", "tests"),
    [
        ("operator/cotenant/core/model/moment.py", ["tests/worker/ranks/test_lone.py"]),
        ("operator/cotenant/core/actions/evict.py", ["tests/core/actions/test_evict.py"]),
        ("operator/cotenant/core/actions/tenure.py", []),
    ],
    ids=["by its full name", "by its package", "by none"],
)
def test_who_imports_a_file(root: Path, source: str, tests: list[str]) -> None:
    assert importers(Path(source), root) == [Path(one) for one in tests]
