"""Which verdicts are written, and when."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.execution.loop.verdict_throttle import VerdictThrottle
from cotenant.controller.informers.job_memory import JobMemories
from cotenant.controller.informers.job_record import JobRecord, read_job
from cotenant.controller.lifecycle import plan_transitions
from cotenant.core.model.lifecycle import Phase
from cotenant.core.model.plan import Reason, Verdict
from tests.controller.builders import T0, job_document
from tests.support.call_count import calls


def told(message: str, reason: Reason = Reason.WAITING_FOR_GPUS) -> dict[str, Verdict]:
    return {"red/train": Verdict(job="red/train", reason=reason, message=message)}


def waits(verdict: Verdict) -> JobRecord:
    status = plan_transitions.waiting(TrainingJobStatus(observed_generation=1), verdict, T0)
    return read_job(job_document(status=status.to_document()))


def test_a_verdict_is_written_when_its_reason_is_new_and_reworded_only_now_and_then() -> None:
    throttle = VerdictThrottle(JobMemories(), rewrite_s=30)

    def write(verdicts: dict[str, Verdict], jobs: dict[str, JobRecord], now: float) -> int:
        to_write = throttle.verdicts_to_write(verdicts, jobs, now)
        throttle.note_written(verdicts, to_write, now)
        return len(to_write)

    new = {"red/train": read_job(job_document())}
    knows = {"red/train": waits(told("3 free")["red/train"])}
    written = [
        write(told("3 free"), new, T0),
        write(told("3 free"), knows, T0 + 1),
        write(told("2 free"), knows, T0 + 2),
        write(told("2 free"), knows, T0 + 30),
        write(told("2 free", Reason.BUDGET_SPENT), knows, T0 + 31),
    ]
    assert written == [1, 0, 0, 1, 1]


def test_a_verdict_names_no_job_of_another_namespace_and_is_not_written_again_for_that() -> None:
    verdict = told("places are kept for blue/secret and red/own")["red/train"]
    verdict = replace(
        verdict, ahead="1 job of its queue: blue/secret (it is older)", evidence=(("for", "blue/secret"),)
    )
    throttle = VerdictThrottle(JobMemories(), rewrite_s=30, namespaces={"red": {}, "blue": {}})
    ((record, written),) = throttle.verdicts_to_write(
        {"red/train": verdict}, {"red/train": read_job(job_document())}, T0
    )
    assert (written.message, written.ahead) == (
        "places are kept for a job of another tenant and red/own",
        "1 job of its queue: a job of another tenant (it is older)",
    )
    assert written.evidence == (("for", "a job of another tenant"),)
    assert record.key == "red/train"
    assert throttle.verdicts_to_write({"red/train": verdict}, {"red/train": waits(written)}, T0 + 60) == []


def chosen(verdicts: dict[str, Verdict], jobs: dict[str, JobRecord]) -> int:
    """The number of verdicts written if none was written lately."""
    return len(VerdictThrottle(JobMemories(), rewrite_s=30).verdicts_to_write(verdicts, jobs, T0 + 100))


def test_of_many_new_messages_fifty_are_written_in_one_cycle_and_every_new_reason() -> None:
    keys = [f"red/train-{number}" for number in range(60)]
    record = waits(told("3 free")["red/train"])
    same, other = told("2 free")["red/train"], told("2 free", Reason.BUDGET_SPENT)["red/train"]
    jobs = dict.fromkeys(keys, record)
    assert (chosen(dict.fromkeys(keys, same), jobs), chosen(dict.fromkeys(keys, other), jobs)) == (50, 60)


def test_a_job_that_is_gone_and_one_that_waits_no_more_are_given_none() -> None:
    record = waits(told("3 free")["red/train"])
    status = record.status.model_copy(update={"phase": Phase.STARTING})
    assert chosen(told("3 free", Reason.BUDGET_SPENT), {}) == 0
    assert chosen(told("3 free", Reason.BUDGET_SPENT), {"red/train": replace(record, status=status)}) == 0


@pytest.mark.parametrize(
    ("change", "written"),
    [
        pytest.param({}, 0, id="nothing"),
        pytest.param({"phase": None}, 1, id="the phase was removed"),
        pytest.param({"pending": None}, 1, id="the reason was removed"),
        pytest.param({"observed_generation": 0}, 1, id="the spec was edited"),
    ],
)
def test_the_same_verdict_is_written_again_only_where_it_was_lost_or_the_spec_is_another(
    change: dict[str, object], written: int
) -> None:
    record = waits(told("3 free")["red/train"])
    edited = replace(record, status=record.status.model_copy(update=change))
    assert chosen(told("3 free"), {"red/train": edited}) == written


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [(None, None, 0), (None, T0, 1), (T0, None, 1), (T0, T0 + 60.0, 0), (T0 + 61.0, T0, 1), (T0, T0 + 61.0, 1)],
)
def test_an_estimate_is_rewritten_when_it_has_moved_by_more_than_a_minute(
    before: float | None, after: float | None, written: int
) -> None:
    known, new = (replace(told("3 free")["red/train"], estimated_start_at=at) for at in (before, after))
    assert chosen({"red/train": new}, {"red/train": waits(known)}) == written


@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        pytest.param(None, T0, 1, id="a first estimate is written at once"),
        pytest.param(T0, T0 + 61.0, 0, id="one that has moved is not"),
        pytest.param(T0, None, 0, id="nor that there is none any more"),
    ],
)
def test_a_status_that_was_written_a_moment_ago_is_written_again_for_a_first_estimate_alone(
    before: float | None, after: float | None, written: int
) -> None:
    known, new = (replace(told("3 free")["red/train"], estimated_start_at=at) for at in (before, after))
    throttle, record = VerdictThrottle(JobMemories(), rewrite_s=30), waits(known)
    throttle.note_written({"red/train": known}, [(record, known)], T0 + 99)
    assert len(throttle.verdicts_to_write({"red/train": new}, {"red/train": record}, T0 + 100)) == written


def test_what_a_status_says_already_costs_a_comparison_until_the_verdict_or_the_job_is_another() -> None:
    def cost(number: int) -> tuple[int, int]:
        verdicts = {
            f"red/train-{one}": replace(told("3 free")["red/train"], job=f"red/train-{one}") for one in range(number)
        }
        record = waits(told("3 free")["red/train"])
        jobs = {key: replace(record, id=replace(record.id, uid=key)) for key in verdicts}
        throttle = VerdictThrottle(JobMemories(), rewrite_s=30)
        first = calls(lambda: throttle.verdicts_to_write(verdicts, jobs, T0 + 100))
        return first, calls(lambda: throttle.verdicts_to_write(verdicts, jobs, T0 + 100))

    (few, few_again), (many, many_again) = cost(100), cost(1_100)
    assert (many_again - few_again) < (many - few) / 4


def test_a_status_that_is_edited_after_it_was_looked_at_is_written_again() -> None:
    throttle = VerdictThrottle(JobMemories(), rewrite_s=30)
    verdicts, record = told("3 free"), waits(told("3 free")["red/train"])
    emptied = replace(record, status=record.status.model_copy(update={"pending": None}))
    looked_at = [
        len(throttle.verdicts_to_write(verdicts, {"red/train": one}, T0 + 100)) for one in (record, record, emptied)
    ]
    assert looked_at == [0, 0, 1]


def test_a_job_that_is_written_about_is_looked_at_again() -> None:
    throttle = VerdictThrottle(JobMemories(), rewrite_s=30)
    verdicts, jobs = told("3 free"), {"red/train": read_job(job_document())}
    assert throttle.verdicts_to_write(verdicts, jobs, T0, lambda key: False) == []
    assert len(throttle.verdicts_to_write(verdicts, jobs, T0)) == 1
