"""The sweep of docs/sweeps.md on a real cluster: it trains real models while its operator and its pods are killed."""

from __future__ import annotations

import random
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.e2e.leadership import holder, kill
from tests.live.e2e.tenancy import Tenancy

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

PAGE = Path(__file__).parents[4] / "docs" / "sweeps.md"
SWEEP = ("sweep", "digits", "-n", "team-a")


def documents() -> list[dict[str, Any]]:
    """The first block of the page: the program and the sweep."""
    block = re.search(r"(?ms)^```yaml\n(.*?)^```", PAGE.read_text())
    assert block is not None
    return list(yaml.safe_load_all(block[1]))


def kill_leader(tenancy: Tenancy) -> None:
    kill(tenancy, holder(tenancy).rpartition("_")[0])


def delete_a_pod(tenancy: Tenancy, chance: random.Random) -> None:
    pods = tenancy.get("pods", "-n", "team-a", "-l", "cotenant.dev/job")["items"]
    running = sorted(pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running")
    if running:
        name = chance.choice(running)
        tenancy.cluster.kubectl("delete", "pod", name, "-n", "team-a", "--wait=false", "--ignore-not-found")


def finished(tenancy: Tenancy) -> dict[str, Any] | None:
    status: dict[str, Any] = tenancy.get(*SWEEP).get("status") or {}
    return status if status.get("phase") in {"Succeeded", "Failed"} else None


def test_each_trial_is_run_once_whoever_is_killed_meanwhile(tenancy: Tenancy) -> None:
    chance = random.Random(20260101)
    tenancy.apply(*documents())
    uids: dict[str, set[str]] = {}

    def look() -> dict[str, Any] | None:
        for job in tenancy.jobs():
            uids.setdefault(job["metadata"]["name"], set()).add(job["metadata"]["uid"])
        return finished(tenancy)

    tenancy.wait(lambda: look() or len(uids) >= 2, what="trials begin")
    kill_leader(tenancy)
    tenancy.wait(lambda: look() or len(uids) >= 3, seconds=200, what="the other replica goes on")
    delete_a_pod(tenancy, chance)
    time.sleep(chance.uniform(1, 5))
    kill_leader(tenancy)
    status = tenancy.wait(look, seconds=300, what="the sweep is over")
    assert (status["phase"], status["summary"], status["counts"]["failed"]) == ("Succeeded", "6/6", 0)
    assert sorted(uids) == [f"digits-{number}" for number in range(6)]
    assert [len(found) for found in uids.values()] == [1] * 6
    best, values = status["best"], [trial["value"] for trial in status["trials"].values()]
    assert best["value"] == max(values) > 0.8, "it has learned something"
    job = tenancy.job(best["job"])
    assert (best["results"], best["parameters"]["lr"]) == (
        job["status"]["results"],
        next(one for one in job["spec"]["runtime"]["args"] if "--lr" in one).removeprefix("--lr="),
    )
    shown = tenancy.cluster.kubectl("get", "sw", "-n", "team-a")
    assert re.search(rf"digits +Succeeded +TPE +6/6 +0 +0 +\S+ +{best['job']} ", shown)
    tenancy.cluster.kubectl("delete", *SWEEP)
    tenancy.wait(lambda: not tenancy.jobs(), what="the jobs of the sweep go with it")


def test_a_trial_that_is_stopped_early_gives_its_gpus_to_the_next(tenancy: Tenancy) -> None:
    program, sweep = documents()
    program["data"]["train.py"] = (
        "import sys, time\nfrom cotenant_worker import report\n"
        "for step in range(1, 100_000):\n"
        "    report(step=step, metrics={'accuracy': float(sys.argv[1])})\n"
        "    if step >= 30 and sys.argv[1] == '9': break\n"
        "    time.sleep(0.1)\n"
    )
    template = sweep["spec"]["template"]
    template["spec"]["gpu"] = {"count": 2}
    template["spec"]["runtime"]["args"] = ["$(params.rank)"]
    sweep["spec"] |= {
        "algorithm": "Grid",
        "parameters": [{"name": "rank", "choices": ["9", "1"]}],
        "earlyStop": {"minSteps": 10, "factor": 2},
        "maxTrials": 2,
        "parallelism": 2,
        "seed": next(seed for seed in range(100) if first_of_grid(sweep, seed) == "9"),
    }
    tenancy.apply(program, sweep)
    status = tenancy.wait(lambda: finished(tenancy), seconds=240, what="the sweep is over")
    assert {one["parameters"]["rank"]: one["phase"] for one in status["trials"].values()} == {
        "9": "Succeeded",
        "1": "Stopped",
    }
    worse = next(one for one in status["trials"].values() if one["phase"] == "Stopped")
    assert re.fullmatch(r"stopped by the sweep at step \d+: 2nd of 2 at this rung", worse["message"])
    tenancy.cluster.kubectl("delete", *SWEEP)


def first_of_grid(sweep: dict[str, Any], seed: int) -> str:
    """Value of the first trial with this seed."""
    from cotenant.api.conversion.to_core import parse_sweep
    from cotenant.controller.composites.sweeps.search import Study

    grid = {"algorithm": "Grid", "parameters": [{"name": "rank", "choices": ["9", "1"]}], "seed": seed}
    body = {**sweep, "spec": {**sweep["spec"], **grid}}
    return Study(parse_sweep(body).spec, {}).suggest()["rank"]


def test_a_tenant_cannot_make_a_sweep_in_the_name_of_another(tenancy: Tenancy) -> None:
    *_, sweep = documents()
    sweep["metadata"]["annotations"] = {"cotenant.dev/user": "somebody-else"}
    assert "which is you, not somebody-else" in tenancy.refused(sweep)
    assert subprocess.run(
        tenancy.cluster.command("kubectl", "get", *SWEEP), capture_output=True, check=False
    ).returncode
