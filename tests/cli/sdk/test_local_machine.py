"""The same verbs with processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cotenant.sdk.client import Client
from cotenant.sdk.errors import (
    ClusterNeededError,
    InvalidJobError,
    JobFailedError,
    JobTimeoutError,
    MissingObjectError,
)
from cotenant.sdk.job import JobRequest
from cotenant.sdk.local_machine import LocalMachine
from cotenant.sdk.local_reports import mean_values
from cotenant.sdk.objects.cluster_verbs import ClusterVerbs

PROGRAM = """
import sys
import beside
import cotenant
with cotenant.worker() as w:
    print("rank", w.rank, "of", w.world_size, beside.WORD, *sys.argv[1:])
    w.report(step=w.rank + 1, of=2, metrics={"loss": float(w.rank)})
    if "fail" in sys.argv and w.rank == 1:
        raise SystemExit("rank 1 gives up")
    if "wait" in sys.argv:
        import time
        time.sleep(600)
    w.results(score=w.rank * 10, host="rank %d" % w.rank)
"""


@pytest.fixture
def job(tmp_path: Path) -> JobRequest:
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("WORD = 'beside'\n")
    return JobRequest(tmp_path / "train.py", files=[tmp_path / "beside.py"], workers=2, name="one")


@pytest.fixture
def machine() -> Iterator[LocalMachine]:
    with Client.local() as local:
        yield local


def test_a_job_runs_as_it_would_on_a_cluster(machine: LocalMachine, job: JobRequest) -> None:
    plan = machine.plan(job)
    assert str(plan) == "local/one would start now for 2 processes, workers on this machine (2)."
    run = machine.submit(plan)
    assert run.result(60) == {"loss": 0.5, "score": 5.0, "host": "rank 0"}
    assert (run.phase, machine.get("one").name) == ("Succeeded", "one")
    assert list(run.logs()) == ["rank 0 of 2 beside", "rank 1 of 2 beside"]
    assert run.status()["progress"] == {"step": 1, "of": 2, "metrics": {"loss": 0.5}}


@pytest.mark.parametrize(
    "verb", sorted(name for name, one in vars(Client).items() if callable(one) and not name.startswith("_"))
)
def test_every_verb_of_a_client_is_there_or_says_that_it_needs_a_cluster(machine: LocalMachine, verb: str) -> None:
    found = getattr(machine, verb, None)
    assert callable(found) or verb == "local"
    if callable(found) and verb in vars(ClusterVerbs):
        with pytest.raises(ClusterNeededError, match="needs a cluster"):
            found("train")


def test_the_rank_that_failed_is_named_and_the_others_are_asked_to_leave(
    machine: LocalMachine, job: JobRequest, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        "import os, time\nif os.environ['RANK'] == '1':\n    raise SystemExit('gives up')\ntime.sleep(600)\n"
    )
    run = machine.submit(job)
    with pytest.raises(JobFailedError) as failed:
        run.result(60)
    assert (failed.value.rank, failed.value.exit_code, failed.value.remote_traceback) == (1, 1, "gives up")


def test_a_job_that_goes_on_is_ended_with_its_machine(job: JobRequest, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    with Client.local() as machine:
        run = machine.submit(job)
        with pytest.raises(JobTimeoutError):
            run.result(0.01)
    assert run.phase == "Failed"
    with pytest.raises(MissingObjectError):
        machine.get("one")


SAVING = """
import sys, time
from pathlib import Path
import cotenant
with cotenant.worker() as w:
    saved = Path(w.checkpoint_dir) / "step"
    begun_at = int(saved.read_text()) if saved.exists() else 0
    print("from", begun_at, flush=True)
    if begun_at:
        raise SystemExit(0)
    saved.write_text("7")
    w.report(step=7)
    time.sleep(600)
"""


def test_a_job_that_was_stopped_goes_on_from_what_it_saved(machine: LocalMachine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVING)
    checkpoint = {"path": "s3://results/one", "interval": "1m"}
    run = machine.submit(JobRequest(tmp_path / "train.py", name="one", spec={"checkpoint": checkpoint}))
    assert next(status for status in run.events() if status["progress"].get("step") == 7)["phase"] == "Running"
    run.stop()
    assert next(status for status in run.events() if status["phase"] == "Suspended")
    assert run.why()["standing"] == "Suspended"
    with pytest.raises(JobTimeoutError):
        run.wait(0.01)
    run.resume()
    assert run.wait(60)["phase"] == "Succeeded"
    assert list(run.logs()) == ["from 0", "from 7"]
    run.resume()
    assert run.phase == "Succeeded"


def test_a_map_runs_one_after_the_other(machine: LocalMachine, job: JobRequest) -> None:
    runs = machine.map(job, [["a"], ["b"]])
    assert [run.name for run in machine.runs()] == ["one-0", "one-1"]
    assert [next(iter(run.logs(rank=0))) for run in runs] == ["rank 0 of 2 beside a", "rank 0 of 2 beside b"]
    assert [status["phase"] for run in runs for status in run.events()] == ["Succeeded", "Succeeded"]


def test_what_a_cluster_would_refuse_is_refused_here(machine: LocalMachine, job: JobRequest) -> None:
    with pytest.raises(InvalidJobError, match=r"spec\.workers"):
        machine.submit(JobRequest(command=["true"], workers=0))


def test_values_of_ranks_are_put_together_as_in_a_status() -> None:
    assert mean_values([{"a": 1, "b": "x"}, {"a": 3, "c": True}]) == {"a": 2.0, "b": "x", "c": True}


def test_a_job_that_leaves_its_workers_to_a_profile_runs_as_one_process(machine: LocalMachine) -> None:
    run = machine.submit(JobRequest(command=["python", "-c", "print('one')"], name="one", profile="small"))
    assert (run.result(60), list(run.logs())) == ({}, ["one"])
