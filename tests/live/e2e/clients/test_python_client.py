"""`import cotenant` against the installed product: a plan that the operator makes, ranks under a real kubelet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import cotenant
from tests.live.e2e.tenancy import Tenancy

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PROGRAM = """
import sys
import time
import cotenant
with cotenant.worker() as w:
    w.report(step=1, of=1, metrics={"loss": w.rank})
    print("rank", w.rank, "of", w.world_size, flush=True)
    if sys.argv[1:] == ["fail"]:
        raise ValueError("no data")
    w.results(score=w.rank * 10)
"""
CPU, MEMORY = "100m", "512Mi"


@pytest.fixture
def client(tenancy: Tenancy) -> Iterator[cotenant.Client]:
    with cotenant.Client(namespace="team-a", kubeconfig=str(tenancy.cluster.kubeconfig)) as found:
        yield found


@pytest.fixture
def job(tmp_path: Path) -> cotenant.Job:
    (tmp_path / "train.py").write_text(PROGRAM)
    return cotenant.Job(tmp_path / "train.py", workers=2, gpu="2/5", cpu=CPU, memory=MEMORY)


def planned(tenancy: Tenancy, client: cotenant.Client, job: cotenant.Job) -> cotenant.Plan:
    """The plan, as soon as the operator that was just installed answers questions."""

    def answer() -> cotenant.Plan | None:
        try:
            return client.plan(job)
        except cotenant.ClusterUnreachable:
            return None

    found: cotenant.Plan = tenancy.wait(answer, what="the operator answers")
    return found


def test_what_is_planned_starts_ends_and_gives_its_results(
    tenancy: Tenancy, client: cotenant.Client, job: cotenant.Job
) -> None:
    plan = planned(tenancy, client, job)
    assert plan.starts_now, str(plan)
    assert sum(plan.nodes.values()) == 2
    assert client.runs() == []
    run = client.submit(plan)
    seen = [status.get("phase") for status in run.events()]
    assert seen[-1] == "Succeeded", run.status()
    assert run.result() == {"loss": 0.5, "score": 5}
    assert [line for line in run.logs(rank=1) if "rank 1 of 2" in line]
    run.delete()
    tenancy.wait(
        lambda: not [one for one in tenancy.get("configmaps", "-n", "team-a")["items"] if "train" in str(one)],
        what="the files go with their job",
    )


def test_a_failure_names_the_rank_and_its_last_lines(
    tenancy: Tenancy, client: cotenant.Client, job: cotenant.Job
) -> None:
    failing = cotenant.Job(job.script, args=["fail"], gpu="2/5", cpu=CPU, memory=MEMORY)
    with pytest.raises(cotenant.JobFailed) as failed:
        client.submit(failing).result(timeout_s=300)
    assert (failed.value.rank, failed.value.exit_code) == (0, 1)
    assert "ValueError: no data" in failed.value.remote_traceback


def test_the_door_refuses_as_it_refuses_kubectl(
    tenancy: Tenancy, client: cotenant.Client, job: cotenant.Job, tmp_path: Path
) -> None:
    with pytest.raises(cotenant.InvalidJob, match=r"spec\.workers"):
        client.submit(cotenant.Job(job.script, workers=0))
    with cotenant.Client(namespace="nowhere", kubeconfig=str(tenancy.cluster.kubeconfig)) as lost:
        with pytest.raises(cotenant.MissingObject, match='namespaces "nowhere" not found'):
            lost.submit(job)
        with pytest.raises(cotenant.MissingObject):
            lost.get("one")
