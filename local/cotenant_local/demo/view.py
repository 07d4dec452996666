"""Draws a `Scene`: bars for GPUs, a row per job, and the summary at the end. Knows rich, knows no cluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cotenant_local.demo.scenes import GpuRow, JobRow, Scene

COLOURS = ("cyan", "magenta", "yellow", "green", "blue", "red")
PHASE_STYLE = {
    "Pending": "yellow",
    "Starting": "cyan",
    "Running": "bold green",
    "Succeeded": "green",
    "Failed": "bold red",
    "Invalid": "bold red",
}
COLUMNS: Final = ("job", "queue", "workers", "each", "phase", "progress")
BAR: Final = 50
BAR_MIN: Final = 8
FRAME_COLUMNS: Final = 10
"""Of the border and between the cells, beside the bar."""
NARROW: Final = 110
"""Columns below which messages do not fit beside the table."""


def colour_of(job: str, scene: Scene) -> str:
    names = [row.name for row in scene.jobs]
    return COLOURS[names.index(job) % len(COLOURS)] if job in names else "white"


def frame(scene: Scene, title: str, width: int) -> RenderableType:
    """The live view: shares of every GPU with their jobs, and the phase of every job, in so many columns of text."""
    gpus = Table.grid(padding=(0, 2))
    labels = [f"{gpu.node} · GPU {gpu.index}" for gpu in scene.gpus]
    beside = max((len(label) + len(gpu_text(gpu)) for label, gpu in zip(labels, scene.gpus, strict=True)), default=0)
    bar = max(BAR_MIN, min(BAR, width - beside - FRAME_COLUMNS))
    for label, gpu in zip(labels, scene.gpus, strict=True):
        gpus.add_row(
            Text(label, style="bold", no_wrap=True),
            gpu_bar(gpu, scene, bar),
            Text(gpu_text(gpu), style="dim", no_wrap=True, overflow="ellipsis"),
        )
    return Group(
        Panel(gpus, title="GPUs" + simulated_note(scene), title_align="left", border_style="dim"),
        Panel(_jobs(scene, width), title=title, title_align="left", border_style="dim"),
    )


def _jobs(scene: Scene, width: int) -> RenderableType:
    """One row per job. In a narrow terminal its message is on a line below it."""
    narrow = width < NARROW
    columns = ("job", "workers", "phase", "progress") if narrow else COLUMNS
    jobs = Table(expand=True, box=None, header_style="dim", pad_edge=False)
    for column in columns:
        jobs.add_column(column, no_wrap=True)
    if not narrow:
        jobs.add_column("why", ratio=1)
    shown: list[RenderableType] = []
    for job in scene.jobs:
        cells: dict[str, RenderableType] = {
            "job": Text(f"■ {job.name}", style=colour_of(job.name, scene)),
            "queue": job.queue,
            "workers": job.workers,
            "each": job.share,
            "phase": Text(job.phase, style=PHASE_STYLE.get(job.phase, "")),
            "progress": progress(job),
        }
        reason = why(job)
        jobs.add_row(*(cells[column] for column in columns), *(() if narrow else (Text(reason),)))
        if narrow and reason:
            shown.append(Text(f"  {job.name}: {reason}", style="dim"))
    return Group(jobs, *shown)


def simulated_note(scene: Scene) -> str:
    return " (simulated: this machine lends its CPUs)" if any(gpu.simulated for gpu in scene.gpus) else ""


def gpu_bar(gpu: GpuRow, scene: Scene, columns: int) -> Text:
    bar = Text(no_wrap=True)
    for part in gpu.held:
        width = columns * part.memory_mib // max(1, gpu.memory_mib)
        label = f"{part.job.split('/')[-1]} rank {part.rank}"
        bar.append(label[:width].center(width), style=f"black on {colour_of(part.job, scene)}")
    bar.append("░" * (columns - len(bar)), style="dim")
    return bar


def gpu_text(gpu: GpuRow) -> str:
    return f"{gpu.gpu_class}  {gpu.free_mib / 1024:.0f} of {gpu.memory_mib / 1024:.0f} GiB free"


def progress(job: JobRow) -> RenderableType:
    if job.percent is None or job.over:
        return Text("")
    return ProgressBar(total=100, completed=job.percent, width=12)


def why(job: JobRow) -> str:
    if job.results:
        return results_text(job.results)
    return f"{job.reason}: {job.message}" if job.reason else job.message


def results_text(results: Mapping[str, Any]) -> str:
    ordered = sorted(results.items(), key=lambda item: ("accuracy" not in item[0], item[0]))
    return ", ".join(f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in ordered)


def summary(scene: Scene) -> Table:
    """The final table: one row per job, with its wait and its result."""
    table = Table(title="Summary", title_justify="left", header_style="bold")
    for column in ("job", "waited", "ran", "phase"):
        table.add_column(column, no_wrap=True)
    table.add_column("results", min_width=8, overflow="fold")
    for job in scene.jobs:
        waited = f"{job.started - job.created:.0f} s" if job.started else "–"
        ran = f"{job.finished - job.started:.0f} s" if job.started and job.finished else "–"
        table.add_row(
            job.name,
            waited,
            ran,
            Text(job.phase, style=PHASE_STYLE.get(job.phase, "")),
            results_text(job.results),
        )
    return table


def changes(before: Scene | None, after: Scene) -> list[str]:
    """One plain line for each job whose phase changed, for output that is no terminal."""
    old = {job.name: (job.phase, job.reason, job.percent) for job in before.jobs} if before else {}
    lines = []
    for job in after.jobs:
        phase, reason, percent = old.get(job.name, ("", "", None))
        if (job.phase, job.reason) != (phase, reason):
            lines.append(f"{job.name}: {job.phase}" + (f" – {why(job)}" if why(job) else ""))
        elif job.percent is not None and (percent is None or job.percent // 25 > percent // 25):
            lines.append(f"{job.name}: {job.phase} {job.percent} %")
    return lines
