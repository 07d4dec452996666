"""The manifests of examples/parallelism, applied as they are on what the demo's cluster is: one node of two GPUs."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.live.e2e.tenancy import CHECKOUT, Document, Tenancy

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

EXAMPLES = sorted((CHECKOUT / "examples" / "parallelism").glob("*.yaml"))


def example(name: str) -> list[Document]:
    return list(yaml.safe_load_all((CHECKOUT / "examples" / "parallelism" / f"{name}.yaml").read_text()))


def ended(tenancy: Tenancy, name: str) -> dict[str, Any]:
    """The job's status once it is over, which it is well."""
    status: dict[str, Any] = tenancy.wait_phase(name, "Succeeded", "Failed", seconds=300)["status"]
    assert status["phase"] == "Succeeded", (status, tenancy.logs(f"{name}-1-0"))
    return status


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES])
def test_the_example_trains_as_one_process_would_and_its_status_says_what_each_rank_holds(
    tenancy: Tenancy, name: str
) -> None:
    documents = example(name)
    tenancy.apply(*documents)
    status = ended(tenancy, name)
    results = {key: float(value) for key, value in status["results"].items()}
    ranks = documents[-1]["spec"]["workers"]
    held = [results[f"rank_{rank}_parameters"] for rank in range(ranks)]
    assert max(held) < 0.6 * results["model_parameters"]
    assert results["test_loss"] == pytest.approx(results["plain_test_loss"], rel=0.01)
    assert results["test_loss"] < 0.2
    assert status["progress"]["lastCheckpoint"]["step"] == 60, status


def test_a_job_of_the_same_name_goes_on_from_the_shards_that_the_last_one_left(tenancy: Tenancy) -> None:
    documents = example("pipeline")
    documents[-1]["metadata"]["name"] = "longer"
    documents[-1]["spec"]["checkpoint"]["path"] = "longer"
    for steps, start in ((20, 0), (40, 20)):
        documents[-1]["spec"]["runtime"]["command"][-1] = str(steps)
        tenancy.apply(*documents)
        ended(tenancy, "longer")
        assert f"starts at {start}" in tenancy.logs("longer-1-0")
        tenancy.delete_all()
