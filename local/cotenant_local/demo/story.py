"""The demo from start to end: starts a cluster, installs the chart, runs the examples, and checks its promises.

Every step is a command that a person could type; it is printed before it runs.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.live import Live

from cotenant_local.demo import view
from cotenant_local.demo.cluster_reader import ClusterReader
from cotenant_local.demo.pages import dashboard
from cotenant_local.demo.scenes import Scene
from cotenant_local.host.errors import LocalError
from cotenant_local.host.patience import Patience

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster as LocalCluster

CHECKOUT = Path(__file__).resolve().parents[3]
NAMESPACE: Final = "cotenant-system"
DEADLINE_S: Final = 420


@dataclass(frozen=True, slots=True)
class DemoOptions:
    keep: bool = False
    name: str = "demo"
    still: Path | None = None
    """Where to write the picture (SVG) of the moment when two jobs run and one waits."""


class StepError(RuntimeError):
    """A command of the story failed; the message has the command and the end of its output."""


def run(options: DemoOptions) -> int:
    """Returns 0 when every promise of the demo was kept, 1 otherwise."""
    console = Console()
    began = time.monotonic()
    kept = False
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        scene = perform(options, console)
        console.print(view.summary(scene))
        broken = promises_broken(scene)
        for line in broken:
            console.print(f"[bold red]✗ {line}[/]")
        console.print(f"[dim]{time.monotonic() - began:.0f} s in all[/]")
        if options.keep:
            kept = True
            console.print(f"\nThe cluster is still up. Use it:\n  export KUBECONFIG={kubeconfig(options.name)}")
            console.print(
                f"  .venv/bin/cotenant local shell --name {options.name}   # or a shell that has it, with kubectl\n"
                f"  kubectl get tj -A\n  .venv/bin/cotenant dashboard -A   # pages in a browser"
                f"\nand stop it with:\n  .venv/bin/cotenant local down --name {options.name}"
            )
        return 1 if broken else 0
    except StepError as failure:
        console.print(f"[bold red]{failure}[/]")
        return 1
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    finally:
        if not kept:
            step(console, ["local", "down", "--name", options.name], quiet=True, check=False)


def perform(options: DemoOptions, console: Console) -> Scene:
    name = options.name
    step(console, ["local", "down", "--name", name], quiet=True, check=False)
    alive = up(console, options)  # held: the cluster ends when this goes
    cluster = ClusterReader(alive.kubeconfig)
    chart = ["upgrade", "--install", "cotenant", "charts/cotenant", "--namespace", NAMESPACE, "--create-namespace"]
    step(console, ["local", "helm", "--name", name, "--", *chart, "--set", "agent.simulate=true", "--wait"])
    kubectl = ["local", "kubectl", "--name", name, "--"]
    step(console, [*kubectl, "annotate", "nodes", "--all", "--overwrite", "cotenant.dev/shared-by-queues=true"])
    wait_for_gpus(cluster, console)
    with dashboard(alive.kubeconfig) as address:
        if address:
            console.print(f"[bold]The dashboard, while this runs:[/] {address}", highlight=False, soft_wrap=True)
        step(console, [*kubectl, "apply", "-f", "examples/"])
        scene = watch(cluster, console, options.still)
    step(console, [*kubectl, "get", "trainingjobs", "--all-namespaces"])
    return scene


def up(console: Console, options: DemoOptions) -> LocalCluster:
    """Like `cotenant local up`, but the cluster ends with this process unless the user asked to keep it."""
    from cotenant_local.cluster import lifecycle, spec

    shown = f"local up --name {options.name} --nodes 1 --gpus 2 --gpu-class H100 --gpu-memory 80Gi"
    console.print(f"[bold]$ cotenant {shown}[/]", highlight=False)
    nodes = spec.uniform(1, gpus=2, gpu_class="H100", gpu_memory="80Gi")
    try:
        return lifecycle.up(options.name, nodes, attached=not options.keep)
    except LocalError as error:
        raise StepError(str(error)) from error


def step(console: Console, arguments: list[str], *, quiet: bool = False, check: bool = True) -> None:
    """Run one `cotenant …` command in the checkout, its output shown as it comes."""
    if not quiet:
        console.print(f"[bold]$ cotenant {' '.join(arguments)}[/]", highlight=False)
    done = subprocess.run(
        [sys.executable, "-m", "cotenant", *arguments],
        cwd=CHECKOUT,
        check=False,
        stdout=subprocess.DEVNULL if quiet else None,
        stderr=subprocess.DEVNULL if quiet else None,
    )
    if check and done.returncode:
        raise StepError(f"`cotenant {' '.join(arguments)}` ended with {done.returncode}; its output is above")


def kubeconfig(name: str) -> Path:
    from cotenant_local.host import folders

    return folders.cluster(name) / "kubeconfig"


def wait_for_gpus(cluster: ClusterReader, console: Console) -> None:
    """Waits until the agent has published the node's GPUs. Before that, every job would wait for unknown GPUs."""
    patience = Patience(90)
    while not cluster.scene().gpus:
        if patience.exhausted():
            raise StepError(
                f"the agent did not publish a GPUNode within {patience}: "
                "kubectl -n cotenant-system logs ds/cotenant-agent"
            )
        time.sleep(0.5)
    console.print("[dim]the agent has published the GPUs of the node[/]")


def watch(cluster: ClusterReader, console: Console, still: Path | None) -> Scene:
    """Show the cluster until every job is over; explain the first wait as kubectl does, once."""
    patience = Patience(DEADLINE_S)
    before: Scene | None = None
    explained = pictured = False
    live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else nullcontext()
    with live as screen:
        while True:
            scene = cluster.scene()
            if screen is not None:
                screen.update(view.frame(scene, "TrainingJobs", console.width))
            else:
                for line in view.changes(before, scene):
                    console.print(line, highlight=False, soft_wrap=True)
            before = scene
            if not pictured and still is not None and worth_a_picture(scene):
                pictured = True
                picture(scene, still)
            if not explained and (
                waiting := next((job for job in scene.jobs if job.reason and side_by_side(scene)), None)
            ):
                explained = True
                console.print(cluster.describe(waiting.name), highlight=False, soft_wrap=True)
            if scene.over:
                return scene
            if patience.exhausted():
                raise StepError(f"not all jobs ended within {patience}: kubectl get tj -A, kubectl describe tj")
            time.sleep(0.5)


def side_by_side(scene: Scene) -> bool:
    return any(len({part.job for part in gpu.held}) > 1 for gpu in scene.gpus)


def worth_a_picture(scene: Scene) -> bool:
    running = [job for job in scene.jobs if job.phase == "Running" and job.percent]
    return side_by_side(scene) and len(running) > 1 and any(job.reason for job in scene.jobs)


def picture(scene: Scene, path: Path) -> None:
    recorder = Console(record=True, width=132, file=open("/dev/null", "w", encoding="utf-8"))  # noqa: SIM115 – rich keeps it
    recorder.print(view.frame(scene, "TrainingJobs", recorder.width))
    path.parent.mkdir(parents=True, exist_ok=True)
    # The picture must not fetch fonts from anywhere when it is opened.
    path.write_text(
        re.sub(r"@font-face \{.*?\}\s*", "", recorder.export_svg(title="make demo"), flags=re.DOTALL), "utf-8"
    )


def promises_broken(scene: Scene) -> list[str]:
    """The promises of the demo, checked: one line for each that is broken."""
    broken = [f"{job.name} is {job.phase}: {job.message}" for job in scene.jobs if job.phase != "Succeeded"]
    if len(scene.jobs) < 3:
        broken.append(f"expected three jobs, saw {len(scene.jobs)}")
    for job in scene.jobs:
        accuracy = next((value for key, value in job.results.items() if "accuracy" in key.lower()), None)
        if job.phase == "Succeeded" and (accuracy is None or float(accuracy) < 0.95):
            broken.append(f"{job.name}: test accuracy {accuracy}, promised at least 0.95")
    return broken
