"""bench/knavigator: what knavigator makes of the templates is what the operator takes. Nothing is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.api.conversion.to_core import parse_job

ROOT = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((ROOT / "bench/knavigator/gangs.yaml").read_text())
TASKS = {task["id"]: task for task in WORKFLOW["tasks"]}
REGISTERED = TASKS["register"]["params"]
SUBMITTED = [task["params"] for task in WORKFLOW["tasks"] if task["type"] == "SubmitObj"]


def rendered(template: str, values: Mapping[str, Any]) -> str:
    """What Go makes of a template that has nothing but values and values with a default."""

    def value(found: re.Match[str]) -> str:
        default = found[2]
        return str(values[found[1]] if default is None else values.get(found[1]) or default)

    made = re.sub(r'\{\{(?:or )?\.(\w+)(?: "([^"]*)")?\}\}', value, template)
    assert "{{" not in made
    return made


@pytest.mark.parametrize("submitted", SUBMITTED, ids=lambda one: str(one["params"]["wave"]))
def test_the_jobs_of_every_wave_are_what_the_operator_takes(submitted: dict[str, Any]) -> None:
    template = (ROOT / REGISTERED["template"]).read_text()
    values = submitted["params"]
    name = rendered(REGISTERED["nameFormat"], values | {"_ENUM_": submitted["count"]})
    document = yaml.safe_load(rendered(template, values | {"_NAME_": name}))
    job = parse_job(document | {"metadata": document["metadata"] | {"uid": "u", "resourceVersion": "1"}})
    assert (job.key, job.spec.queue, job.spec.workers, job.spec.gpu.count) == (
        f"bench/{values['wave']}-{submitted['count']}", "bench", values["replicas"], 8,
    )  # fmt: skip
    assert rendered(REGISTERED["podCount"], values) == str(job.spec.workers)
    assert re.fullmatch(rendered(REGISTERED["podNameFormat"], {"_NAME_": name}), f"{name}-1-0")


def test_every_wave_fills_the_cluster_and_is_seen_to_its_end() -> None:
    assert {one["count"] * one["params"]["replicas"] * one["params"]["gpu"] for one in SUBMITTED} == {32 * 8}
    kinds = {"RegisterObj", "SubmitObj", "CheckPod", "CheckObj"}
    assert {task["type"] for task in WORKFLOW["tasks"]} == kinds
    assert all(one["refTaskId"] == "register" for one in SUBMITTED)
    waves = {task["id"] for task in WORKFLOW["tasks"] if task["type"] == "SubmitObj"}
    checked = [task["params"] for task in WORKFLOW["tasks"] if task["type"] == "CheckObj"]
    assert [(one["refTaskId"], one["state"]) for one in checked] == [
        (wave, {"status": {"phase": "Succeeded"}}) for wave in TASKS if wave in waves
    ]
