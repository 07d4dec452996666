"""The job log of the Philly traces (Jeon et al., ATC 2019): a JSON list of jobs with their attempts.

A job's run time is the sum of its attempts. Its size is that of its last attempt. Its queue is its virtual cluster.
Attempts whose start or end is missing in the log do not count. A job without any other attempt is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from cotenant.simulator.traces.trace import LeftOut, Trace, TraceError, TraceJob, seconds_of


def read_philly(lines: Iterable[str]) -> Trace:
    try:
        entries = json.loads("".join(lines))
    except json.JSONDecodeError as error:
        raise TraceError(f"the trace is not JSON (Philly): {error}") from error
    left_out, jobs = LeftOut(), []
    for number, entry in enumerate(entries, start=1):
        try:
            job = _job(entry, left_out)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TraceError(f"job {number} of the trace (Philly): {error!r}") from error
        if job is not None:
            jobs.append(job)
    return Trace.of(jobs, left_out.sentences())


def _job(entry: Mapping[str, Any], left_out: LeftOut) -> TraceJob | None:
    attempts = [
        one for one in entry["attempts"] if _is_moment(one.get("start_time")) and _is_moment(one.get("end_time"))
    ]
    seconds = sum(max(0.0, seconds_of(one["end_time"]) - seconds_of(one["start_time"])) for one in attempts)
    gpus = sum(len(part["gpus"]) for part in attempts[-1]["detail"]) if attempts else 0
    if not seconds or not gpus or not _is_moment(entry["submitted_time"]):
        left_out.add("has no attempt with a start, an end and a GPU")
        return None
    return TraceJob(
        name=entry["jobid"],
        submitted_at=seconds_of(entry["submitted_time"]),
        duration_s=seconds,
        gpus=gpus,
        queue=entry["vc"],
        user=entry["user"],
    )


def _is_moment(text: Any) -> bool:
    return isinstance(text, str) and text not in ("", "None")
