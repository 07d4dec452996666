"""Kills anything of a whole cluster at random: `python bench/chaos_cluster.py --minutes 60 --seed 1`. Root.

A local cluster with the chart on it, three nodes of two simulated GPUs and one without, and jobs of two queues that
come and go. One thing after another goes wrong: ranks, Ray, pods, kubelets, nodes, operators, agents, the control
plane; jobs of higher priority push others out. `chaos_rules` says what must hold all the while. In the end every job
must have come to the right sum and be charged nothing.
Prints what happened, and how long it took until every job that was hit trained on; ends with 1, the story and the logs
at the first broken rule.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chaos_jobs
from chaos_faults import FAULTS, SYSTEM, Fault
from chaos_rules import OVER, key_of
from chaos_stage import NothingThereError, Stage
from chaos_watch import Watch

from cotenant_local.cluster import lifecycle, spec
from cotenant_local.cluster.lifecycle import Cluster
from cotenant_local.host.api_client import Api
from cotenant_local.host.cluster_folder import Plan
from cotenant_local.host.errors import LocalError

CHART = Path(__file__).resolve().parents[1] / "charts" / "cotenant"
NODES = {
    "nodes": [{"name": "gpu", "count": 3, "gpus": {"count": 2, "class": "H100"}}, {"name": "cpu"}],
}
AT_ONCE = 3
ON_AGAIN_S = 420.0
"""Within this every job trains on after a fault, also on a busy machine; a rendezvous alone may take 120 s."""
JOB_S = 1800.0
"""Within this a job ends, however often it is hit."""


class BrokenRuleError(Exception):
    """Something that must always hold did not."""


@dataclass(slots=True)
class Chaos:
    stage: Stage
    watch: Watch
    started: dict[str, float] = field(default_factory=dict)
    """Jobs that are to end, and since when."""
    done: int = 0
    number: int = 0
    took: dict[str, list[float]] = field(default_factory=dict)

    def tend(self) -> None:
        """Takes away what has ended, applies new jobs, and raises when a rule is broken."""
        if self.watch.broken:
            raise BrokenRuleError(self.watch.broken)
        view = self.watch.newest
        if view is None:
            return
        for job in view.jobs:
            if job.get("status", {}).get("phase") == "Succeeded":
                self._take_away(job)
        for key, since in self.started.items():
            if time.monotonic() - since > JOB_S:
                raise BrokenRuleError(f"{key} has not ended within {JOB_S:.0f} s")

    def fill(self) -> None:
        while len(self.started) < AT_ONCE:
            kind = list(chaos_jobs.KINDS)[self.number % len(chaos_jobs.KINDS)]
            team = chaos_jobs.TEAMS[self.number % len(chaos_jobs.TEAMS)]
            documents = chaos_jobs.job(kind, self.number + 1, team)
            with self.patience():
                self.stage.kubectl("apply", "-f", "-", stdin=_list(documents))
                self.number += 1
                self.started[key_of(documents[-1])] = time.monotonic()
                continue
            return

    def _take_away(self, job: dict[str, Any]) -> None:
        with self.patience():
            name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
            self.stage.kubectl("delete", "tj", name, "-n", namespace, "--wait=false", "--ignore-not-found")
            self.done += self.started.pop(key_of(job), None) is not None

    @contextlib.contextmanager
    def patience(self) -> Iterator[None]:
        """An API server that is away is asked again later."""
        try:
            yield
        except LocalError as error:
            self.watch.say(f"    (kubectl: {str(error).splitlines()[-1][:160]})")

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.tend()
            if until():
                return True
            time.sleep(0.5)
        return False

    def one(self, fault: Fault) -> None:
        """The fault, its end, and the wait until all train again."""
        self.stage.hit = ""
        begin = time.monotonic()
        try:
            undo = fault.strike(self.stage)
        except (NothingThereError, ProcessLookupError) as error:
            self.watch.say(f"{fault.name}: {error}")
            return
        except LocalError as error:
            self.watch.say(f"{fault.name}: {str(error)[:300]}")
            undo = None
        lasts = self.stage.dice.uniform(*fault.lasts_s)
        self.watch.say(f"{fault.name}: {self.stage.hit}" + (f" for {lasts:.0f} s" if undo else ""))
        try:
            self.wait(lasts)
        finally:
            if undo:
                with self.patience():
                    self._undo(undo)
        took = self._until_all_train(begin)
        self.took.setdefault(fault.name, []).append(took)
        self.watch.say(f"{fault.name}: all train again {took:.1f} s after it began")

    def _undo(self, undo: Callable[[], object]) -> None:
        for _ in range(60):
            try:
                undo()
                return
            except NothingThereError:
                time.sleep(1)

    def _until_all_train(self, begin: float) -> float:
        """Every job that is not over makes a step that it had not made 3 s after the fault."""
        self.wait(max(0.0, begin + 3.0 - time.monotonic()))
        before = self._steps()
        moved: dict[str, float] = {}

        def all_moved() -> bool:
            now = self._steps()
            for key, was in before.items():
                if key not in moved and (key not in now or now[key] != was):
                    moved[key] = time.monotonic()
            return len(moved) == len(before)

        if not self.wait(ON_AGAIN_S, all_moved):
            left = ", ".join(sorted(set(before) - set(moved)))
            raise BrokenRuleError(f"{ON_AGAIN_S:.0f} s after the fault these do not train: {left}")
        return max(moved.values(), default=time.monotonic()) - begin

    def _steps(self) -> dict[str, Any]:
        """Of jobs that are to end: how far they are. The view of an API server that is away is the last one."""
        found = {}
        for job in self.watch.newest.jobs if self.watch.newest else ():
            status = job.get("status", {})
            begun = status.get("attempts", 0) > 0  # one that still waits for its first GPUs was not hit
            if key_of(job) in self.started and begun and status.get("phase") not in OVER:
                found[key_of(job)] = (status.get("progress") or {}).get("step", 0)
        return found


@contextlib.contextmanager
def product(name: str) -> Iterator[Cluster]:
    """The cluster with the chart as it is."""
    cluster = lifecycle.up(name, spec.parse(NODES, "chaos"), attached=True)
    try:
        options = ["-n", SYSTEM, "--create-namespace", "--set", "agent.simulate=true", "--wait", "--timeout", "300s"]
        helm = cluster.command("helm", "upgrade", "--install", "cotenant", str(CHART), *options)
        subprocess.run(helm, check=True, capture_output=True, text=True)
        cluster.kubectl("annotate", "nodes", "--all", "cotenant.dev/shared-by-queues=true")
        cluster.kubectl("apply", "-f", "-", stdin=_list(chaos_jobs.tenants()))
        yield cluster
    finally:
        lifecycle.down(name)


def _list(documents: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def run(cluster: Cluster, minutes: float, seed: int, wanted: list[Fault]) -> Chaos:
    port = Plan.load(cluster.state.plan).api_port
    watch = Watch(Api("127.0.0.1", port, cluster.state.pki))
    threading.Thread(target=watch.run, daemon=True).start()
    chaos = Chaos(Stage(cluster, random.Random(seed)), watch)
    end = time.monotonic() + minutes * 60
    try:
        while time.monotonic() < end:
            chaos.fill()
            chaos.wait(chaos.stage.dice.uniform(1, 15))
            chaos.one(chaos.stage.dice.choice(wanted))
        chaos.wait(JOB_S, lambda: not chaos.started)
    except BrokenRuleError as error:
        print(f"BROKEN: {error}")
        print(_logs(cluster))
        raise
    finally:
        watch.stop()
    return chaos


def _logs(cluster: Cluster) -> str:
    """What somebody needs who was not there."""
    said = []
    for command in (
        ["get", "tj,pods,gpunodes,nodes", "-A", "-o", "wide"],
        ["get", "tj", "-A", "-o", "yaml"],
        ["logs", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator", "--prefix", "--tail=300"],
        ["logs", "-A", "-l", "cotenant.dev/job", "--prefix", "--tail=60"],
    ):
        try:
            said.append(cluster.kubectl(*command))
        except LocalError as error:
            said.append(str(error))
    return "\n".join(said)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="faults whose name holds this")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/chaos_cluster.py did not run: it finds and kills the processes of a cluster, which needs root")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # asked to stop: leave nothing behind
    print(f"seed {chosen.seed}")
    with product(f"chaos-{os.getpid()}") as cluster:
        try:
            chaos = run(cluster, chosen.minutes, chosen.seed, [f for f in FAULTS if chosen.only in f.name])
        except BrokenRuleError:
            return 1
    count = sum(len(times) for times in chaos.took.values())
    print(f"{count} faults, {chaos.done} jobs ended with the right sum, load {os.getloadavg()[0]:.1f}")
    for name, times in sorted(chaos.took.items()):
        print(f"{name:<40}{len(times):>4}   trained on after {min(times):>6.1f} to {max(times):>6.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
