"""The chart, rendered by Helm: no cluster is started."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

CHART = Path(__file__).parents[2] / "charts" / "cotenant"
NAMESPACE = "cotenant-system"

Objects = dict[tuple[str, str], dict[str, Any]]
Render = Callable[..., Objects]


@pytest.fixture(scope="session")
def helm() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Helm without a cluster, from the build cache."""
    from cotenant_local.programs import build

    program = build.programs() / "controlplane"

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, "helm", *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60
        )

    return run


@pytest.fixture(scope="session")
def render(helm: Callable[..., subprocess.CompletedProcess[str]]) -> Render:
    """`render({...values})` → the objects by (kind, name)."""

    def rendered(values: Mapping[str, Any] | None = None) -> Objects:
        document = yaml.safe_dump(dict(values or {}))
        done = helm("template", "release", str(CHART), "--namespace", NAMESPACE, "--values", "-", stdin=document)
        if done.returncode:
            raise ValueError(done.stderr)
        found = [each for each in yaml.safe_load_all(done.stdout) if each]
        return {(each["kind"], each["metadata"]["name"]): each for each in found}

    return rendered
