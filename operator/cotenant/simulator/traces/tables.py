"""Traces that are tables with a header: the plain CSV, openb's list of pods, and the logs of Helios.

Plain CSV, one job a line; columns beyond these are named and ignored:

| column | also known as | meaning |
|---|---|---|
| `submit` | `timestamp`, `submit_time`, `submitted_at`, `time` | when it came: seconds, or a date and time |
| `duration` | `run_time`, `runtime` | seconds that it really ran |
| `gpus` | `num_gpus`, `gpu_num` | GPUs, all at once |
| `queue` | `cluster`, `vc`, `tenant` | optional |
| `user`, `name`, `priority` | `job_id`, `jobname` for the name | optional |
| `declared` | `expected_runtime`, `requested_time` | optional: seconds that it was said to run |
| `gpu_milli` | | optional: thousandths of its one GPU |

openb (Alibaba, `cluster-trace-gpu-v2023`): `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,
creation_time,deletion_time,scheduled_time`, times in seconds. Helios (SenseTime, SC 2021): `job_id,user,vc,gpu_num,
cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from cotenant.core.model.objects import WHOLE
from cotenant.simulator.traces.trace import LeftOut, Trace, TraceError, TraceJob, first_of, seconds_of

Row: TypeAlias = Mapping[str, str]
ReadRow: TypeAlias = Callable[[int, Row, LeftOut], TraceJob | None]

SUBMIT = ("submit", "timestamp", "submit_time", "submitted_at", "time")
DURATION = ("duration", "run_time", "runtime")
GPUS = ("gpus", "num_gpus", "gpu_num")
QUEUE = ("queue", "cluster", "vc", "tenant")
NAME = ("name", "jobname", "job_id")
DECLARED = ("declared", "expected_runtime", "requested_time")
_PLAIN = frozenset({*SUBMIT, *DURATION, *GPUS, *QUEUE, *NAME, *DECLARED, "user", "priority", "gpu_milli"})
_OPENB = frozenset({"num_gpu", "gpu_milli", "creation_time", "deletion_time"})
_HELIOS = frozenset({"gpu_num", "vc", "submit_time", "duration"})

NO_GPU = "asks for no GPU"
NEVER_RAN = "never ran, or has no run time"


def is_openb(columns: Iterable[str]) -> bool:
    return set(columns) >= _OPENB


def is_helios(columns: Iterable[str]) -> bool:
    return set(columns) >= _HELIOS


def read_plain(lines: Iterable[str]) -> Trace:
    def row(number: int, row: Row, left_out: LeftOut) -> TraceJob | None:
        gpus, duration_s = round(float(first_of(row, GPUS))), float(first_of(row, DURATION))
        if not _plays(gpus, duration_s, left_out):
            return None
        declared = first_of(row, DECLARED)
        return TraceJob(
            name=first_of(row, NAME) or f"job-{number}",
            submitted_at=seconds_of(first_of(row, SUBMIT)),
            duration_s=duration_s,
            gpus=gpus,
            queue=first_of(row, QUEUE) or "trace",
            user=first_of(row, ("user",)),
            declared_s=round(float(declared)) if declared else None,
            priority=int(first_of(row, ("priority",)) or 0),
            gpu_milli=int(first_of(row, ("gpu_milli",)) or WHOLE) if gpus == 1 else WHOLE,
        )

    return _read(lines, row, needed=(SUBMIT, DURATION, GPUS), known=_PLAIN)


def read_openb(lines: Iterable[str]) -> Trace:
    def row(number: int, row: Row, left_out: LeftOut) -> TraceJob | None:
        gpus, started = int(row["num_gpu"] or 0), row.get("scheduled_time") or ""
        duration_s = float(row["deletion_time"]) - float(started) if started and row["deletion_time"] else 0.0
        if not _plays(gpus, duration_s, left_out):
            return None
        return TraceJob(
            name=row.get("name") or f"pod-{number}",
            submitted_at=float(row["creation_time"]),
            duration_s=duration_s,
            gpus=gpus,
            queue=(row.get("qos") or "trace").lower(),
            gpu_milli=int(row["gpu_milli"] or WHOLE) if gpus == 1 else WHOLE,
            gpu_classes=tuple(name for name in (row.get("gpu_spec") or "").split("|") if name),
            cpu_milli=int(row.get("cpu_milli") or 0),
            memory_mib=int(row.get("memory_mib") or 0),
        )

    return _read(lines, row, needed=[(name,) for name in sorted(_OPENB)], known=None)


def read_helios(lines: Iterable[str]) -> Trace:
    def row(number: int, row: Row, left_out: LeftOut) -> TraceJob | None:
        gpus, duration_s = int(float(row["gpu_num"] or 0)), float(row["duration"] or 0)
        if not _plays(gpus, duration_s, left_out):
            return None
        return TraceJob(
            name=first_of(row, NAME) or f"job-{number}",
            submitted_at=seconds_of(row["submit_time"]),
            duration_s=duration_s,
            gpus=gpus,
            queue=row["vc"] or "trace",
            user=row.get("user") or "",
            cpu_milli=int(float(row.get("cpu_num") or 0) * 1000),
        )

    return _read(lines, row, needed=[(name,) for name in sorted(_HELIOS)], known=None)


def _plays(gpus: int, duration_s: float, left_out: LeftOut) -> bool:
    if gpus <= 0:
        left_out.add(NO_GPU)
    elif duration_s <= 0:
        left_out.add(NEVER_RAN)
    return gpus > 0 and duration_s > 0


def _read(
    lines: Iterable[str], row: ReadRow, *, needed: Iterable[tuple[str, ...]], known: frozenset[str] | None
) -> Trace:
    """`known`: columns that are read; others are named in a note. None: the layout is fixed, and all are known."""
    table = csv.DictReader(lines)
    columns = [name.strip() for name in table.fieldnames or ()]
    table.fieldnames = columns
    for names in needed:
        if not set(names) & set(columns):
            raise TraceError(f"the trace has no column {names[0]!r}; it has {', '.join(columns) or 'none'}")
    left_out, jobs = LeftOut(), []
    for number, values in enumerate(table, start=1):
        try:
            job = row(number, values, left_out)
        except (ValueError, TypeError, KeyError) as error:
            raise TraceError(f"line {table.line_num} of the trace: {error}") from error
        if job is not None:
            jobs.append(job)
    ignored = [name for name in columns if known is not None and name not in known]
    notes = [f"columns that are not used: {', '.join(ignored)}"] if ignored else []
    return Trace.of(jobs, [*notes, *left_out.sentences()])
