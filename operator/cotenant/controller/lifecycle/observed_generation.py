"""Which version of its spec a job's status is about, also if an edit changes nothing else of the status.

Tools that wait for objects (kstatus, as Flux and Helm use it) call an object in progress until its status has seen the
newest spec.
"""

from __future__ import annotations

from dataclasses import replace

from cotenant.controller.informers.job_record import JobRecord
from cotenant.controller.lifecycle.observation import ReconcileResult
from cotenant.core.model.lifecycle import Phase


def told(record: JobRecord, result: ReconcileResult) -> ReconcileResult:
    """The step, with the generation that it was decided from. Of a job that waits, its verdict tells it; of one on
    another cluster, what is heard from there.
    """
    status = result.status or record.status
    if status.phase in {None, Phase.PENDING} or record.is_away or record.deleting or record.status_problem is not None:
        return result
    if status.observed_generation == record.generation:
        return result
    return replace(result, status=status.model_copy(update={"observed_generation": record.generation}))
