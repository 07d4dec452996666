"""Two releases of the chart in one cluster would be two operators with one set of jobs: Helm refuses the second."""

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cotenant_local.lifecycle import Cluster

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[2] / "charts" / "cotenant"


def test_a_second_release_is_refused_and_leaves_the_first_alone(policies: "Cluster") -> None:
    before = policies.kubectl(
        "get", "deployments,clusterroles", "-A", "-l", "app.kubernetes.io/name=cotenant", "-o=name"
    )
    install = ("install", "second", str(CHART), "--namespace", "elsewhere", "--create-namespace")
    try:
        done = subprocess.run(policies.command("helm", *install), capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "cannot be imported into the current release" in done.stderr
        after = policies.kubectl(
            "get", "deployments,clusterroles", "-A", "-l", "app.kubernetes.io/name=cotenant", "-o=name"
        )
        assert after == before != ""
    finally:
        policies.kubectl("delete", "namespace", "elsewhere", "--ignore-not-found", "--wait=false")
