"""`/healthz`, `/progress` and `/metrics` of a worker pod, on its own address. Stdlib; GET only.

For the kubelet, the operator and Prometheus; NetworkPolicy keeps others away from the port. prometheus_client is not
used: importing it takes 50 ms of CPU beside the 130 ms of all of PID 1, and 3 MiB in every pod, for forty lines of
text.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable

from cotenant import names
from cotenant_worker.progress.progress_board import ProgressBoard

_TEXT = "text/plain; version=0.0.4; charset=utf-8"


async def serve(board: ProgressBoard, address: str, labels: dict[str, str]) -> asyncio.Server:
    """Listen on the pod's address. Returns the server, which the caller closes."""
    pages: dict[str, Callable[[], tuple[str, str]]] = {
        "/healthz": lambda: ("text/plain", "ok\n"),
        "/progress": lambda: ("application/json", board.progress().to_json()),
        "/metrics": lambda: (_TEXT, metrics_page(board, labels)),
    }

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(5):
                head = await reader.readuntil(b"\r\n\r\n")
                words = head.split(b"\r\n", 1)[0].decode(errors="replace").split()
                page = pages.get(words[1].split("?")[0]) if len(words) == 3 and words[0] in ("GET", "HEAD") else None
                kind, body = page() if page else ("text/plain", "not found\n")
                status = "200 OK" if page else "404 Not Found"
                payload = b"" if words[:1] == ["HEAD"] else body.encode()
                writer.write(
                    f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body.encode())}\r\n"
                    f"Connection: close\r\n\r\n".encode()
                    + payload
                )
                await writer.drain()
        writer.close()

    return await asyncio.start_server(answer, address, names.PROGRESS_PORT, limit=16384)


def metrics_page(board: ProgressBoard, labels: dict[str, str]) -> str:
    """The metrics in Prometheus' text format, version 0.0.4."""
    progress = board.progress()
    own = ",".join(f'{name}="{value}"' for name, value in labels.items())
    lines: list[str] = []

    def metric(name: str, help_: str, rows: list[tuple[str, float]]) -> None:
        lines.extend((f"# HELP cotenant_worker_{name} {help_}", f"# TYPE cotenant_worker_{name} gauge"))
        lines.extend(
            f"cotenant_worker_{name}{{{own}{',' + extra if extra else ''}}} {_number(value)}" for extra, value in rows
        )

    metric("step", "Step that rank 0 has reached.", [("", progress.step)])
    metric("steps_total", "Steps of the whole run, 0 when not known.", [("", progress.of)])
    metric("steps_per_second", "Over the last reports.", [("", progress.rate)])
    if progress.remaining_s is not None:
        metric("remaining_seconds", "Until the last step at the present rate.", [("", progress.remaining_s)])
    metric("restarts", "Starts of the ranks in this attempt, after the first.", [("", board.restarts)])
    if progress.last_checkpoint_at is not None:
        metric("last_checkpoint_timestamp_seconds", "When it was complete.", [("", progress.last_checkpoint_at)])
    shown = progress.metrics | board.lost_metrics()
    if shown:
        rows = [(f'name="{escape(name)}"', value) for name, value in shown.items()]
        metric("training_metric", "The program's own metrics, averaged over the ranks.", rows)
    if progress.memory_peak_mib:
        rows = [(f'rank="{rank}"', float(peak)) for rank, peak in sorted(progress.memory_peak_mib.items())]
        metric("gpu_memory_peak_mib", "Most GPU memory that a rank's allocator held.", rows)
    if board.checks:
        rate = max(size / ms * 1e3 if ms > 0 else 0.0 for ms, size, _ in board.checks.values())
        metric("preflight_allreduce_bytes_per_second", "Of the check before step 0.", [("", rate)])
        speeds = [(f'rank="{rank}"', ms) for rank, (_, _, ms) in sorted(board.checks.items())]
        metric("preflight_own_milliseconds", "A rank's own work in that check.", speeds)
    rows = [(f'phase="{escape(what)}"', seconds) for what, seconds in board.timings.items()]
    if rows:
        metric("startup_seconds", "Since the launcher began, per phase.", rows)
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    """The number in the text format, which has NaN and +Inf."""
    return "NaN" if math.isnan(value) else "+Inf" if math.isinf(value) else f"{value:g}"


def escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
