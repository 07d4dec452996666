"""Fault injection into a whole cluster, at random: `python bench/chaos/cluster.py --minutes 60 --seed 1`. Root.

A local cluster with the chart on it, three nodes of two simulated GPUs and one without, and jobs of two queues that
come and go. Faults follow one another: in ranks, Ray, pods, kubelets, nodes, operators, agents, the control plane.
Jobs of higher priority preempt others. The invariants (`cluster_invariants`) are checked throughout. At the end every
job must have the right sum, and no fault may have been charged to it.
Prints what happened, and how long it took until every job that was hit trained on; ends with 1 and the logs at the
first violation.
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

from bench.chaos import cluster_jobs
from bench.chaos.cluster_access import ClusterAccess, NoTargetError
from bench.chaos.cluster_faults import FAULTS, SYSTEM, ClusterFault
from bench.chaos.cluster_invariants import TERMINAL, key_of
from bench.chaos.cluster_monitor import ClusterMonitor
from bench.chaos.violation import InvariantViolationError
from cotenant import names
from cotenant_local.cluster import lifecycle, spec
from cotenant_local.cluster.lifecycle import Cluster
from cotenant_local.host.api_client import Api
from cotenant_local.host.cluster_plan import ClusterPlan
from cotenant_local.host.errors import LocalError

CHART = Path(__file__).resolve().parents[2] / "charts" / "cotenant"
NODES = {
    "nodes": [{"name": "gpu", "count": 3, "gpus": {"count": 2, "class": "H100"}}, {"name": "cpu"}],
}
AT_ONCE = 3
RECOVERY_S = 420.0
"""Longest time from a fault until every job trains on, also on a busy machine; a rendezvous alone may take 120 s."""
JOB_S = 1800.0
"""Longest life of a job, however often it is hit."""


@dataclass(slots=True)
class FaultRun:
    """Jobs that come and go on a cluster, and faults that hit it one after another."""

    access: ClusterAccess
    monitor: ClusterMonitor
    started: dict[str, float] = field(default_factory=dict)
    """namespace/name of jobs that are to end -> monotonic seconds of their creation."""
    done: int = 0
    number: int = 0
    took: dict[str, list[float]] = field(default_factory=dict)
    """Name of a fault -> seconds until every job trained on, for each time."""

    def check(self) -> None:
        """Delete jobs that have succeeded; InvariantViolationError when an invariant does not hold."""
        if self.monitor.violation:
            raise InvariantViolationError(self.monitor.violation)
        observation = self.monitor.newest
        if observation is None:
            return
        for job in observation.jobs:
            if job.get("status", {}).get("phase") == "Succeeded":
                self._delete(job)
        for key, since in self.started.items():
            if time.monotonic() - since > JOB_S:
                raise InvariantViolationError(f"{key} has not ended within {JOB_S:.0f} s")

    def submit(self) -> None:
        """Apply new jobs until AT_ONCE are to end."""
        while len(self.started) < AT_ONCE:
            kind = list(cluster_jobs.KINDS)[self.number % len(cluster_jobs.KINDS)]
            team = cluster_jobs.TEAMS[self.number % len(cluster_jobs.TEAMS)]
            documents = cluster_jobs.job(kind, self.number + 1, team)
            with self.tolerating_api_errors():
                self.access.kubectl("apply", "-f", "-", stdin=_list(documents))
                self.number += 1
                self.started[key_of(documents[-1])] = time.monotonic()
                continue
            return

    def _delete(self, job: dict[str, Any]) -> None:
        with self.tolerating_api_errors():
            name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
            self.access.kubectl("delete", "tj", name, "-n", namespace, "--wait=false", "--ignore-not-found")
            self.done += self.started.pop(key_of(job), None) is not None

    @contextlib.contextmanager
    def tolerating_api_errors(self) -> Iterator[None]:
        """Log an error of kubectl: what an API server that is away did not do is tried again later."""
        try:
            yield
        except LocalError as error:
            self.monitor.log(f"    (kubectl: {str(error).splitlines()[-1][:160]})")

    def wait(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.check()
            if until():
                return True
            time.sleep(0.5)
        return False

    def inject(self, fault: ClusterFault) -> None:
        """Inject the fault, undo it, and wait until all jobs train again."""
        self.access.hit = ""
        begin = time.monotonic()
        try:
            undo = fault.inject(self.access)
        except (NoTargetError, ProcessLookupError) as error:
            self.monitor.log(f"{fault.name}: {error}")
            return
        except LocalError as error:
            self.monitor.log(f"{fault.name}: {str(error)[:300]}")
            undo = None
        lasts = self.access.dice.uniform(*fault.lasts_s)
        self.monitor.log(f"{fault.name}: {self.access.hit}" + (f" for {lasts:.0f} s" if undo else ""))
        try:
            self.wait(lasts)
        finally:
            if undo:
                with self.tolerating_api_errors():
                    self._undo(undo)
        took = self._until_all_train(begin)
        self.took.setdefault(fault.name, []).append(took)
        self.monitor.log(f"{fault.name}: all train again {took:.1f} s after it began")

    def _undo(self, undo: Callable[[], object]) -> None:
        for _ in range(60):
            try:
                undo()
                return
            except NoTargetError:
                time.sleep(1)

    def _until_all_train(self, begin: float) -> float:
        """Wait until every live job makes a step that it had not made 3 s after the fault; seconds since `begin`."""
        self.wait(max(0.0, begin + 3.0 - time.monotonic()))
        before = self._steps()
        moved: dict[str, float] = {}

        def all_moved() -> bool:
            now = self._steps()
            for key, was in before.items():
                if key not in moved and (key not in now or now[key] != was):
                    moved[key] = time.monotonic()
            return len(moved) == len(before)

        if not self.wait(RECOVERY_S, all_moved):
            left = ", ".join(sorted(set(before) - set(moved)))
            raise InvariantViolationError(f"{RECOVERY_S:.0f} s after the fault these do not train: {left}")
        return max(moved.values(), default=time.monotonic()) - begin

    def _steps(self) -> dict[str, Any]:
        """namespace/name of jobs that are to end -> their step, by the last observation."""
        found = {}
        for job in self.monitor.newest.jobs if self.monitor.newest else ():
            status = job.get("status", {})
            begun = status.get("attempts", 0) > 0  # one that still waits for its first GPUs was not hit
            if key_of(job) in self.started and begun and status.get("phase") not in TERMINAL:
                found[key_of(job)] = (status.get("progress") or {}).get("step", 0)
        return found


@contextlib.contextmanager
def product(name: str) -> Iterator[Cluster]:
    """Bring up a cluster with the chart installed as it is."""
    cluster = lifecycle.up(name, spec.parse(NODES, "chaos"), attached=True)
    try:
        options = ["-n", SYSTEM, "--create-namespace", "--set", "agent.simulate=true", "--wait", "--timeout", "300s"]
        helm = cluster.command("helm", "upgrade", "--install", "cotenant", str(CHART), *options)
        subprocess.run(helm, check=True, capture_output=True, text=True)
        cluster.kubectl("annotate", "nodes", "--all", "cotenant.dev/shared-by-queues=true")
        cluster.kubectl("apply", "-f", "-", stdin=_list(cluster_jobs.tenants()))
        yield cluster
    finally:
        lifecycle.down(name)


def _list(documents: list[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": documents})


def run(cluster: Cluster, minutes: float, seed: int, wanted: list[ClusterFault]) -> FaultRun:
    port = ClusterPlan.load(cluster.state.plan).api_port
    monitor = ClusterMonitor(Api.from_pki("127.0.0.1", port, cluster.state.pki))
    threading.Thread(target=monitor.run, daemon=True).start()
    faults = FaultRun(ClusterAccess(cluster, random.Random(seed)), monitor)
    end = time.monotonic() + minutes * 60
    try:
        while time.monotonic() < end:
            faults.submit()
            faults.wait(faults.access.dice.uniform(1, 15))
            faults.inject(faults.access.dice.choice(wanted))
        faults.wait(JOB_S, lambda: not faults.started)
    except InvariantViolationError as error:
        print(f"BROKEN: {error}")
        print(_logs(cluster))
        raise
    finally:
        monitor.stop()
    return faults


def _logs(cluster: Cluster) -> str:
    """Objects and logs that explain a violation."""
    found = []
    for command in (
        ["get", "tj,pods,gpunodes,nodes", "-A", "-o", "wide"],
        ["get", "tj,pods", "-A", "-o", "yaml"],
        ["logs", "-n", SYSTEM, "-l", "app.kubernetes.io/component=operator", "--prefix", "--tail=300"],
        *(["logs", "-n", team, "-l", names.LABEL_JOB, "--prefix", "--tail=60"] for team in cluster_jobs.TEAMS),
    ):
        try:
            found.append(cluster.kubectl(*command))
        except LocalError as error:
            found.append(str(error))
    return "\n".join(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", default="", help="faults whose name holds this")
    chosen = parser.parse_args()
    if os.geteuid() != 0:
        print("bench/chaos/cluster.py did not run: it finds and kills the processes of a cluster, which needs root")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as on Ctrl-C: leave nothing behind
    print(f"seed {chosen.seed}")
    with product(f"chaos-{os.getpid()}") as cluster:
        try:
            faults = run(cluster, chosen.minutes, chosen.seed, [f for f in FAULTS if chosen.only in f.name])
        except InvariantViolationError:
            return 1
    count = sum(len(times) for times in faults.took.values())
    print(f"{count} faults, {faults.done} jobs ended with the right sum, load {os.getloadavg()[0]:.1f}")
    for name, times in sorted(faults.took.items()):
        print(f"{name:<40}{len(times):>4}   trained on after {min(times):>6.1f} to {max(times):>6.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
