"""Standard Workload Format 2.2 of the Parallel Workloads Archive (Feitelson et al.): 18 numbers per line, -1 for
unknown.

The reader uses fields 1 job number, 2 submit time, 4 run time, 5 and 8 processors (requested, otherwise allocated), 9
requested time, 12 user, 15 queue. A processor counts as one GPU. `; UnixStartTime:` in the header dates the times.
"""

from __future__ import annotations

from collections.abc import Iterable

from cotenant.simulator.traces.trace import LeftOut, Trace, TraceError, TraceJob

FIELDS = 18


def read_swf(lines: Iterable[str]) -> Trace:
    left_out, jobs, begins = LeftOut(), [], 0.0
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        name, _, value = text.lstrip("; ").partition(":")
        if text.startswith(";") and name.strip().lower() == "unixstarttime":
            try:
                begins = float(value.split()[0])
            except (ValueError, IndexError) as error:
                raise TraceError(f"line {number} of the trace has no UnixStartTime (SWF): {error}") from error
        if text.startswith(";"):
            continue
        if not text:
            continue
        try:
            job = _job([float(word) for word in text.split()], begins, left_out)
        except (ValueError, IndexError) as error:
            raise TraceError(f"line {number} of the trace is not {FIELDS} numbers (SWF): {error}") from error
        if job is not None:
            jobs.append(job)
    return Trace.of(jobs, ["a processor of the SWF trace counts as one GPU", *left_out.sentences()])


def _job(fields: list[float], begins: float, left_out: LeftOut) -> TraceJob | None:
    got, wanted, requested_s = int(fields[4]), int(fields[7]), fields[8]
    gpus = wanted if wanted > 0 else got
    if gpus <= 0 or fields[3] <= 0:
        left_out.add("never ran, or on no processor")
        return None
    user, queue = int(fields[11]), int(fields[14])
    return TraceJob(
        name=f"job-{int(fields[0])}",
        submitted_at=begins + fields[1],
        duration_s=fields[3],
        gpus=gpus,
        queue=f"queue-{queue}" if queue >= 0 else "trace",
        user=f"user-{user}" if user >= 0 else "",
        declared_s=int(requested_s) if requested_s > 0 else None,
    )
