"""A sweep made and followed from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_sweep
from cotenant.controller.client import kube
from cotenant.sdk.async_client import AsyncClient
from cotenant.sdk.errors import InvalidJobError, JobFailedError, MissingObjectError
from cotenant.sdk.job import JobRequest
from cotenant.sdk.objects.async_sweep import AsyncSweep, BestResult
from cotenant.sdk.objects.requests import Range
from tests.cli.sdk.served_kube import ServedKube

TRIALS = {
    "0": {"phase": "Succeeded", "parameters": {"lr": "0.1"}, "value": 0.5},
    "10": {"phase": "Stopped", "parameters": {"lr": "0.3"}, "value": 0.9, "message": "stopped at step 10"},
    "9": {"parameters": {"lr": "0.2"}},
}
BEST = {
    "trial": 0,
    "job": "s-0",
    "value": 0.5,
    "parameters": {"lr": "0.1"},
    "results": {"loss": 0.5},
    "checkpoint": "s-0",
}


@pytest.fixture
def job(tmp_path: Path) -> JobRequest:
    (tmp_path / "train.py").write_text("print(1)")
    return JobRequest(tmp_path / "train.py", name="s", args=["--seed=$(trial.seed)", "--lr", "$(params.lr)"])


def put(served: ServedKube, **status: Any) -> AsyncSweep:
    document = {"metadata": {"name": "s", "namespace": "team-a", "uid": "u1"}, "spec": {}, "status": status}
    served.kube.put(kube.SWEEPS, document)
    return AsyncSweep(served, "team-a", "s", "u1")  # type: ignore[arg-type]


async def test_a_sweep_has_the_job_as_its_template_and_parameters_that_it_does_not_name_become_arguments(
    client: AsyncClient, served: ServedKube, job: JobRequest
) -> None:
    made = await client.sweep(
        job,
        parameters={"lr": Range(0.001, 1, log=True), "width": Range(16, 64, step=16), "optimizer": ["adam", "sgd"]},
        metric="loss",
        goal="Minimize",
        max_trials=4,
        parallelism=2,
        spec={"ttlAfterFinished": "1h"},
    )
    document = served.kube.stored(kube.SWEEPS, "s", "team-a")
    assert document is not None
    spec = parse_sweep(document).spec
    assert [one.name for one in spec.parameters] == ["lr", "width", "optimizer"]
    assert document["spec"]["parameters"] == [
        {"name": "lr", "number": {"min": 0.001, "max": 1.0, "scale": "Log"}},
        {"name": "width", "integer": {"min": 16, "max": 64, "step": 16}},
        {"name": "optimizer", "choices": ["adam", "sgd"]},
    ]
    assert (spec.algorithm, spec.parallelism, spec.ttl_after_finished) == ("TPE", 2, 3600)
    words = [*document["spec"]["template"]["spec"]["runtime"]["command"], *(spec.template.spec.runtime.args or ())]
    assert words[-5:] == [
        "--seed=$(trial.seed)", "--lr", "$(params.lr)", "--width=$(params.width)", "--optimizer=$(params.optimizer)",
    ]  # fmt: skip
    code = served.kube.stored(kube.CONFIG_MAPS, "s-code", "team-a")
    assert code is not None
    assert [(one["kind"], one["uid"]) for one in code["metadata"]["ownerReferences"]] == [("Sweep", made.uid)]


async def test_a_sweep_that_makes_no_sense_is_refused_before_anything_is_sent(
    client: AsyncClient, served: ServedKube, job: JobRequest
) -> None:
    asked = {"metric": "loss", "goal": "Minimize", "max_trials": 4}
    with pytest.raises(InvalidJobError, match=r"max must be more than min"):
        await client.sweep(job, parameters={"lr": Range(1.0, 0.5)}, **asked)  # type: ignore[arg-type]
    with pytest.raises(InvalidJobError, match="step is for whole numbers"):
        await client.sweep(job, parameters={"lr": Range(0.5, 1, step=2)}, **asked)  # type: ignore[arg-type]
    assert served.asked == []


async def test_trials_are_in_the_order_of_their_numbers(served: ServedKube) -> None:
    trials = await put(served, trials=TRIALS).trials()
    assert [(one.number, one.phase, one.value) for one in trials] == [
        (0, "Succeeded", 0.5), (9, "Waiting", None), (10, "Stopped", 0.9),
    ]  # fmt: skip
    assert (trials[2].parameters, trials[2].message) == ({"lr": "0.3"}, "stopped at step 10")


async def test_the_best_is_there_as_soon_as_a_trial_has_a_result(served: ServedKube) -> None:
    assert await put(served, phase="Running").best() is None
    assert await put(served, phase="Running", best=BEST).best() == BestResult(
        number=0,
        job="s-0",
        value=0.5,
        parameters={"lr": "0.1"},
        results={"loss": 0.5},
        checkpoint="s-0",
        checkpoint_step=None,
    )


async def test_the_result_of_a_sweep_that_failed_is_an_error_that_says_why(served: ServedKube) -> None:
    assert (await put(served, phase="Succeeded", best=BEST).result(5)).job == "s-0"
    failed = put(served, phase="Failed", reason="TooManyFailedTrials", message="4 trials failed", best=BEST)
    with pytest.raises(JobFailedError, match="TooManyFailedTrials: 4 trials failed"):
        await failed.result(5)


async def test_a_job_of_the_sweep_is_found_and_a_namesake_is_not(served: ServedKube) -> None:
    sweep = put(served, best=BEST)
    job = {"metadata": {"name": "s-0", "namespace": "team-a", "uid": "j0", "ownerReferences": [{"uid": "u1"}]}}
    served.kube.put(kube.TRAINING_JOBS, job)
    assert (await sweep.run("s-0")).uid == "j0"
    served.kube.put(kube.TRAINING_JOBS, {"metadata": {"name": "s-1", "namespace": "team-a", "uid": "j1"}})
    with pytest.raises(MissingObjectError, match="is no job of the sweep s"):
        await sweep.run("s-1")
