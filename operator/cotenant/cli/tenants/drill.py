"""`cotenant drill JOB`: rehearses a preemption of the job.

The ranks are asked to leave as by any eviction, what they save is compared with the checkpoint before, and the job
continues. The verb uses `spec.suspend`, the one eviction that tenants may order for their own jobs. It ends the pods as
every other does: SIGTERM, `gracePeriod` to save, SIGKILL. The job gives its GPUs back, so other jobs may take its
place.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from time import monotonic

from cotenant.cli.errors import EXIT_REFUSED, UserError
from cotenant.cli.tenants.jobs import FINISHED, WAIT_S, Document, phase_of, suspend, wait_for
from cotenant.cli.terminal.cluster_verb import add_timeout, cluster_verb
from cotenant.cli.terminal.confirmation import agreed
from cotenant.cli.terminal.object_names import named
from cotenant.cli.terminal.output import Colour, painted


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = cluster_verb(verbs, "drill", run, "rehearse a preemption of a job: does it save in time and continue?")
    parser.add_argument("job", metavar="JOB", help="a running job with a checkpoint: NAME, or NAMESPACE/NAME")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_timeout(parser, WAIT_S, f"give up after this time (default: {WAIT_S:.0f})")


@dataclass(frozen=True, slots=True)
class Rehearsal:
    seconds: float
    grace: str
    before: tuple[int | None, str]
    """Step of the newest checkpoint before the drill, and when it was written."""
    after: tuple[int | None, str]
    step: int
    """The step that the job had reached when it was asked to leave."""
    phase: str
    """The phase after the drill. The job may have finished meanwhile."""
    message: str

    @property
    def saved(self) -> bool:
        return self.after != self.before and self.after[0] is not None


def run(args: argparse.Namespace) -> int:
    connection, name = named(args, args.job)
    job = connection.read(name.path)
    if phase_of(job) != "Running":
        raise UserError(f"{name} is {phase_of(job)}: only a job that runs can be asked to leave", EXIT_REFUSED)
    if "checkpoint" not in (job.get("spec") or {}):
        raise UserError(f"{name} names no checkpoint: there is nothing to rehearse, it would begin anew", EXIT_REFUSED)
    if not args.yes:
        question = f"{name} gives its GPUs back, and others may take them before it goes on. Rehearse it?"
        if not agreed(question, "--yes"):
            raise UserError("nothing was rehearsed", EXIT_REFUSED)
    suspend(connection, name.path, job, True)
    began = monotonic()
    try:
        left = wait_for(connection, name, ("Suspended", *FINISHED), args.timeout)
        found = rehearsed(job, left, monotonic() - began)
    finally:  # whatever has happened, it goes on
        if phase_of(connection.read(name.path)) not in FINISHED:
            suspend(connection, name.path, job, False)
    print("\n".join(sentences(str(name), found)))
    return 0 if found.saved or found.phase == "Succeeded" else EXIT_REFUSED


def rehearsed(before: Document, after: Document, seconds: float) -> Rehearsal:
    status = after.get("status") or {}
    return Rehearsal(
        seconds=seconds,
        grace=str((before.get("spec") or {}).get("gracePeriod") or "30s"),
        before=_checkpoint(before),
        after=_checkpoint(after),
        step=int(((before.get("status") or {}).get("progress") or {}).get("step") or 0),
        phase=phase_of(after),
        message=str((status.get("lastExit") or {}).get("message") or ""),
    )


def sentences(name: str, found: Rehearsal) -> Iterator[str]:
    """The outcome of the drill in words."""
    if found.phase in FINISHED:
        yield f"{name} has finished meanwhile ({found.phase}): nothing was rehearsed."
        return
    time_taken = f"{found.seconds:.0f} s of {found.grace}"
    if found.saved:
        yield painted(f"{name} saved step {found.after[0]} and left in {time_taken}.", Colour.GREEN)
    elif found.after[0] is None:
        yield painted(f"{name} left in {time_taken} and saved nothing: it begins anew.", Colour.RED)
    else:
        lost = max(0, found.step - found.after[0])
        yield painted(f"{name} left in {time_taken} and saved nothing new: it goes back to step {found.after[0]}, "
                      f"{lost} steps are lost.", Colour.RED)  # fmt: skip
    if found.message:
        yield found.message
    if not found.saved:
        yield "SIGTERM reaches every rank: save there and end, within gracePeriod (docs/failures.md)."
    yield f"It waits for its place again: `kubectl cotenant why {name}`"


def _checkpoint(job: Document) -> tuple[int | None, str]:
    known = ((job.get("status") or {}).get("progress") or {}).get("lastCheckpoint") or {}
    return known.get("step"), str(known.get("at") or "")
