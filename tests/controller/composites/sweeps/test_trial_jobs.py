"""The TrainingJob of a trial: its name, its values in its program, its own place for checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant import names
from cotenant.api.conversion.to_core import parse_job
from cotenant.controller.composites.sweeps.search import trial_seed
from cotenant.controller.composites.sweeps.trial_jobs import TrialJob, job_name, trial_job
from tests.controller.composites.sweeps.played_sweep import LR, TEMPLATE, sweep_document, sweep_of


def made(template: dict[str, Any], number: int = 3, member: int = 0, **spec: Any) -> dict[str, Any]:
    document = sweep_document(template={"spec": template}, **spec)
    values = {"lr": "0.5", "layers": "$(params.lr)"}
    return trial_job(sweep_of(document), template, number, member, values)


def test_the_values_stand_in_command_arguments_and_variables() -> None:
    template = {
        **TEMPLATE,
        "runtime": {
            "command": ["sh", "-c", "train --lr $(params.lr) --twice $(params.lr) $(date)"],
            "args": ["$(trial.number)"],
            "env": [
                {"name": "RATE", "value": "is $(params.lr)"},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
            ],
        },
    }
    layers = {"name": "layers", "env": "LAYERS", "choices": ["1"]}
    runtime = made(template, parameters=[LR, layers])["spec"]["runtime"]
    assert runtime["command"][2] == "train --lr 0.5 --twice 0.5 $(date)"
    assert runtime["args"] == ["3"]
    assert runtime["env"] == [
        {"name": "RATE", "value": "is 0.5"},
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}},
        {"name": "LAYERS", "value": "$(params.lr)"},
    ], "a value is not looked through for references"
    assert template["runtime"]["args"] == ["$(trial.number)"], "the template stays as it is"


def test_each_member_of_an_ensemble_has_a_name_and_a_seed_of_its_own() -> None:
    template = {**TEMPLATE, "runtime": {"command": ["train", "$(params.lr)", "$(trial.seed)"]}}
    jobs = [made(template, member=member, ensemble={"members": 3}, seed=9) for member in range(3)]
    assert [one["metadata"]["name"] for one in jobs] == ["lr-3-0", "lr-3-1", "lr-3-2"]
    assert [one["spec"]["runtime"]["command"][2] for one in jobs] == [str(trial_seed(9, 3, one)) for one in range(3)]


@pytest.mark.parametrize(
    ("checkpoint", "path"),
    [({"path": "s3://b/c"}, "s3://b/c/lr-3"), ({"volume": {"persistentVolumeClaim": {"claimName": "c"}}}, None)],
)
def test_no_trial_goes_on_from_the_checkpoint_of_another(checkpoint: dict[str, Any], path: str | None) -> None:
    job = made({**TEMPLATE, "checkpoint": checkpoint})
    assert job["spec"]["checkpoint"].get("path") == path
    assert TrialJob(job).checkpoint_path == (path or "lr-3"), "without a path it is the name of the job"


def test_it_is_a_job_that_the_user_of_the_sweep_could_have_written() -> None:
    job = made(TEMPLATE)
    assert job["metadata"]["annotations"] == {names.ANNOTATION_USER: "ada"}
    assert parse_job({**job, "metadata": {**job["metadata"], "namespace": "red"}}).key == "red/lr-3"


def test_the_longest_name_leaves_room_for_the_pods() -> None:
    document = sweep_document(ensemble={"members": 16})
    document["metadata"]["name"] = "a" * 40
    assert len(job_name(sweep_of(document), 499, 15)) <= 50


@pytest.mark.parametrize(
    ("status", "metric"),
    [
        ({}, None),
        ({"phase": "Running", "progress": {"metrics": {"loss": 1}}}, 1.0),
        ({"phase": "Running", "progress": {"metrics": {"loss": "inf"}}}, float("inf")),
        ({"phase": "Running", "progress": {"metrics": {"loss": "much"}}}, None),
        ({"phase": "Succeeded", "results": {"loss": 2}, "progress": {"metrics": {"loss": 1}}}, 2.0),
        ({"phase": "Succeeded", "progress": {"metrics": {"loss": 1}}}, 1.0),
        ({"phase": "PhaseOfANewerRelease", "progress": {"metrics": {"loss": 1}}}, 1.0),
    ],
)
def test_its_metric_is_the_latest_and_at_the_end_the_result(status: dict[str, Any], metric: float | None) -> None:
    assert TrialJob({"metadata": {"name": "lr-0"}, "status": status}).metric("loss") == metric
