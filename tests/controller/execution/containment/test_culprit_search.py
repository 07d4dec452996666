"""Which jobs are left out when no decision can be made with them. Pure."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cotenant.controller.execution.containment.culprit_search import TRIALS_MAX, CulpritSearch
from cotenant.core.model.objects import Job
from cotenant.core.snapshot.snapshot import Snapshot
from tests.controller.builders import placement_on
from tests.support.clusters import make_job

JOBS = [make_job(f"job-{number:04}") for number in range(1000)]
KEYS = [job.key for job in JOBS]


def search(fails: Callable[[set[str]], bool], jobs: list[Job] = JOBS) -> CulpritSearch:
    """Search with decisions that fail if this holds for the jobs of the snapshot that wait or can be moved."""

    def decide(snapshot: Snapshot) -> None:
        names = {job.key.partition("/")[2] for job in snapshot.jobs if job.placement is None or job.preemptible}
        if fails(names):
            raise ValueError("no decision")

    return CulpritSearch(decide, Snapshot(now=0.0, jobs=tuple(jobs)))


@pytest.mark.parametrize(
    ("culprits", "trials"),
    [({"job-0000"}, 22), ({"job-0999"}, 22), ({"job-0007", "job-0500"}, 41)],
    ids=["the first", "the last", "two"],
)
def test_each_job_that_fails_on_its_own_is_found_in_few_trials(culprits: set[str], trials: int) -> None:
    made = search(lambda names: bool(names & culprits))
    found = {key.partition("/")[2]: str(error) for key, error in made.culprits(KEYS).items()}
    assert (found, made.trials <= trials) == (dict.fromkeys(culprits, "no decision"), True)


@pytest.mark.parametrize("together", [("job-0000", "job-0003"), ("job-0123", "job-0789"), ("job-0001", "job-0999")])
def test_of_jobs_that_fail_only_together_the_last_one_is_left_out(together: tuple[str, str]) -> None:
    made = search(lambda names: names >= set(together))
    assert (list(made.culprits(KEYS)), made.trials < 32) == ([f"red/{together[1]}"], True)


@pytest.mark.parametrize("fails", [lambda names: True, lambda names: False], ids=["without any", "with none of them"])
def test_where_no_job_is_to_blame_none_is_suspect(fails: Callable[[set[str]], bool]) -> None:
    assert search(fails).culprits(KEYS) == {}


def test_the_number_of_trials_is_bounded_and_what_was_not_told_apart_is_suspect() -> None:
    """After 64 trials, the untested second halves of the running searches count as suspect."""
    made = search(lambda names: len(names) > 0)
    found = made.culprits(KEYS)
    assert (len(found), TRIALS_MAX, made.trials) == (1000, 64, 70)


def test_a_single_suspect_takes_two_trials() -> None:
    """One trial runs without the suspect and one with it."""
    made = search(lambda names: len(names) > 0)
    assert (list(made.culprits(KEYS[:1])), made.trials) == (KEYS[:1], 2)


def test_a_job_that_runs_is_under_test_as_well_and_keeps_what_it_holds_when_it_is_not() -> None:
    running = make_job("running", placement=placement_on(("n1", 1)))
    seen: list[tuple[str, bool]] = []

    def decide(snapshot: Snapshot) -> None:
        seen.extend((job.key, job.preemptible) for job in snapshot.jobs if job.placement is not None)
        if any(job.placement is not None and job.preemptible for job in snapshot.jobs):
            raise ValueError("no decision")

    made = CulpritSearch(decide, Snapshot(now=0.0, jobs=(running, *JOBS[:3])))
    assert (list(made.culprits([running.key, *KEYS[:3]])), seen[0]) == ([running.key], (running.key, False))
