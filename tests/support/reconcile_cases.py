"""Cases of `reconcile`: what is observed of a job, and what is to be done about it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.reconcile import reconcile
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import Phase

SETTINGS = Settings(start_timeout_s=300, exclude_s=900, platform_retries=2)
ONE, TWO = (("n1", 2),), (("n1", 1), ("n2", 1))


@dataclass(frozen=True)
class Case:
    name: str
    given: Observation
    phase: Phase | None = None
    """None: the status is left alone."""
    reason: str = ""
    says: str = ""
    """Part of the message."""
    delete: tuple[str, ...] = ()
    create: bool = False
    delete_job: bool = False
    again: float | None = None
    holds: bool = True
    """The placement is still committed after the step."""


def check(case: Case) -> None:
    """Reconcile gives what the case has."""
    result = reconcile(case.given, SETTINGS)
    after = result.status or case.given.status
    assert (
        result.status.phase if result.status else None,
        result.status.reason if result.status else "",
        sorted(pod.name for pod in result.delete_pods),
        result.create_pods,
        result.delete_job,
        result.requeue_at,
        after.placement is not None,
    ) == (case.phase, case.reason, sorted(case.delete), case.create, case.delete_job, case.again, case.holds)
    assert case.says in (after.message or "")


def check_written_once(case: Case) -> None:
    """What was written is not written again."""
    first = reconcile(case.given, SETTINGS)
    if first.status is not None and first.status.phase is not Phase.EVICTING and not case.holds:
        record = replace(case.given.record, status=first.status)
        gone = Observation(record=record, problem=case.given.problem, now=case.given.now)
        assert reconcile(gone, SETTINGS).status is None, case.name
