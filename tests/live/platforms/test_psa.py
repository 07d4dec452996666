"""Pod Security `restricted`, enforced in its latest version, and an image pull Secret that the job names."""

from __future__ import annotations

import pytest

from tests.live.e2e.tenancy import Tenancy
from tests.live.platforms.training import ordinary_job, trains

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def test_an_ordinary_job_trains_under_the_restricted_profile(platform: Tenancy, team: str) -> None:
    level = "pod-security.kubernetes.io"
    marks = [f"{level}/enforce=restricted", f"{level}/enforce-version=latest", f"{level}/warn=restricted"]
    platform.cluster.kubectl("label", "namespace", team, "--overwrite", *marks)
    trains(platform, team)


def test_a_pod_names_the_pull_secret_of_its_job(platform: Tenancy, team: str) -> None:
    job = ordinary_job(team, "private", workers=1)
    job["spec"]["runtime"] |= {"imagePullSecrets": [{"name": "team-registry"}], "command": ["sleep", "600"]}
    platform.apply(job)
    platform.wait_phase("private", "Running", namespace=team)
    (pod,) = platform.get("pods", "-n", team, "-l", "cotenant.dev/job=private")["items"]
    assert pod["spec"]["imagePullSecrets"] == [{"name": "team-registry"}]
    assert pod["metadata"]["annotations"]["karpenter.sh/do-not-disrupt"] == "true"
