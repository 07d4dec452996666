"""Changes every field of TrainingJob, Queue and GPUNode at random while jobs run, in the manner of Acto (SOSP 2023).

It also changes labels and the ResourceQuota of a namespace, which decide whether the operator may create pods there.

Each change is sent to the real API server of a local cluster with the chart installed. After a change that the API
server accepts, the operator must live and decide, and no GPU may be handed out twice. After the change is undone, the
jobs must be as before. A job that is created while a namespace is changed starts when the namespace is as before.
Prints what broke, with the seed and number that draw it again. The exit status is 1 if something broke.

    python -m bench.parts.spec_changes [--seconds 240] [--seed 1] [--kind TrainingJob ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from bench.parts.spec_changes import oracles
from bench.parts.spec_changes.schema_places import Place, Schema, changed, places
from cotenant_local.cluster import spec
from tests.live.e2e.tenancy import Tenancy, product, training_job

ROOT = Path(__file__).parents[3]
BACK_S = 90.0
"""Longest time until everything is as before, once a change is undone."""
ENDED = {"Succeeded", "Failed"}
COUNTED = (
    "pods",
    "secrets",
    "services",
    "requests.cpu",
    "requests.memory",
    "limits.memory",
    "count/networkpolicies.networking.k8s.io",
)
OF_NAMESPACES: dict[str, Schema] = {
    "Namespace": {
        "properties": {
            "cotenant.dev/tenant": {"enum": ["true", "false", "True", ""]},
            "pod-security.kubernetes.io/enforce": {"enum": ["restricted", "baseline", "privileged"]},
            "team": {"type": "string"},
        }
    },
    "ResourceQuota": {
        "properties": {"hard": {"properties": {name: {"enum": ["0", "1", "100Gi"]} for name in COUNTED}}}
    },
}
"""Schemas of the changed parts of a namespace."""
SLEEPS = ["python", "-c", "import time; time.sleep(3600)"]


@dataclass(frozen=True)
class Subject:
    """An object that is changed: its spec, or its status if it has no spec."""

    kind: str
    name: str
    namespace: str = ""
    part: str = "spec"

    def changed_part(self, document: dict[str, Any]) -> Any:
        found: Any = document
        for key in self.part.split("/"):
            found = found.get(key) or {}
        return found

    @property
    def arguments(self) -> list[str]:
        return [self.kind.lower(), self.name, *(["-n", self.namespace] if self.namespace else [])]

    @property
    def places(self) -> list[Place]:
        if self.kind in OF_NAMESPACES:
            return list(places(OF_NAMESPACES[self.kind]))
        crd = yaml.safe_load((ROOT / "crds" / f"{self.kind.lower()}s.yaml").read_text())
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][self.part]
        return list(places(schema))


@dataclass
class Run:
    tenancy: Tenancy
    counts: Counter[str] = field(default_factory=Counter)
    broke: list[str] = field(default_factory=list)

    def write(self, subject: Subject, value: Any) -> bool:
        """True if the API server accepted the document."""
        patch = json.dumps([{"op": "add", "path": f"/{subject.part}", "value": value}])
        command = ["kubectl", "patch", *subject.arguments, "--type=json", "-p", patch]
        if subject.part == "status":
            command.append("--subresource=status")
        try:
            done = subprocess.run(self.tenancy.cluster.command(*command), capture_output=True, check=False)
        except (UnicodeEncodeError, ValueError):  # no process takes such an argument
            return False
        return done.returncode == 0

    def phases(self) -> dict[str, str]:
        return {job["metadata"]["name"]: (job.get("status") or {}).get("phase", "") for job in self.tenancy.jobs()}

    def one_change(self, subject: Subject, place: Place, random: Random, number: int) -> None:
        before, alive, phases = self.tenancy.get(*subject.arguments), oracles.restarts(self.tenancy), self.phases()
        value = changed(subject.changed_part(before), place, random)
        if not self.write(subject, value):
            self.counts["refused"] += 1
            return
        self.counts["taken"] += 1
        change = f"{subject.kind} {place} = {ascii(value)[:1500]}"
        self.expect(change, "does not decide", lambda: oracles.decides(self.tenancy, number))
        self.none(change, "handed out twice", oracles.overbooked(self.tenancy))
        self.none(change, "quarantined", oracles.quarantined(self.tenancy))
        comes = f"comes-{number}" if subject.kind in OF_NAMESPACES else ""
        if comes:
            self.tenancy.apply(training_job(comes, "team-b"))
            self.expect(
                change,
                "not looked at",
                lambda: self.tenancy.wait(
                    lambda: self.phases().get(comes), seconds=oracles.DECIDE_S, what=f"{comes} has a phase"
                ),
            )
        if not self.write(subject, subject.changed_part(before)):
            self.counts["made anew"] += 1  # a rule of transitions lets nobody go back
            self.renew(before)
        if comes:
            self.expect(
                change, "does not start", lambda: self.tenancy.wait_phase(comes, "Succeeded", namespace="team-b")
            )
            self.tenancy.cluster.kubectl("delete", "trainingjob", comes, "-n", "team-b", "--wait=true")
        self.expect(change, "no way back", lambda: self.wait_back(phases, before))
        later = oracles.restarts(self.tenancy)
        self.none(change, "restarted", {pod: times for pod, times in later.items() if alive.get(pod) != times})

    def wait_back(self, phases: dict[str, str], changed_object: dict[str, Any]) -> None:
        """Wait until jobs are as before. A job that its change has ended (a short `maxRuntime`) is created again."""

        def back() -> bool:
            now = self.phases()
            if changed_object["kind"] == "TrainingJob" and now.get(changed_object["metadata"]["name"]) in ENDED:
                self.counts["ended"] += 1
                self.renew(changed_object)
            return {**phases, **now} == phases

        self.tenancy.wait(back, seconds=BACK_S, what=f"phases are {phases}")

    def renew(self, before: dict[str, Any]) -> None:
        metadata = {
            key: before["metadata"][key] for key in ("name", "namespace", "labels") if key in before["metadata"]
        }
        document = {key: before[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": metadata}
        where = ["-n", metadata["namespace"]] if "namespace" in metadata else []
        self.tenancy.cluster.kubectl("delete", before["kind"].lower(), metadata["name"], *where, "--wait=true")
        self.tenancy.apply(document)

    def expect(self, change: str, what: str, holds: Callable[[], object]) -> None:
        try:
            holds()
        except pytest.fail.Exception as failed:
            self.none(change, what, {"": str(failed)[:3000]})

    def none(self, change: str, what: str, found: dict[str, Any]) -> None:
        """Note what broke, and go on."""
        if found:
            self.broke.append(f"{what} after {change}: {found}")
            print(self.broke[-1], flush=True)


def subjects() -> list[Subject]:
    return [
        Subject("TrainingJob", "steady", "team-a"),
        Subject("TrainingJob", "waiting", "team-b"),
        Subject("Queue", "team-a"),
        Subject("Queue", "team-b"),
        Subject("GPUNode", "spec-changes-0", part="status"),
        Subject("Namespace", "team-b", part="metadata/labels"),
        Subject("ResourceQuota", "wide", "team-b"),
    ]


def prepare(tenancy: Tenancy) -> None:
    """A job that runs, one of another tenant beside it, and one that waits for more than there is."""
    tenancy.apply(
        training_job("steady", command=SLEEPS, gpu={"count": 1}),
        training_job("beside", "team-b", command=SLEEPS, gpu={"count": 1}),
        training_job("waiting", "team-b", command=SLEEPS, gpu={"count": 2}),
    )
    tenancy.apply(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "wide", "namespace": "team-b"},
            "spec": {"hard": {"pods": "1000"}},
        }
    )
    tenancy.wait_phase("steady", "Running")
    tenancy.wait_phase("beside", "Running", namespace="team-b")
    tenancy.wait_phase("waiting", "Pending", namespace="team-b")


def draws(seed: int, wanted: list[Subject]) -> Iterator[tuple[int, Subject, Place, Random]]:
    """Every field of every subject once, in random order, then again."""
    order = Random(seed)
    number = 0
    while True:
        pairs = [(subject, place) for subject in wanted for place in subject.places]
        order.shuffle(pairs)
        for subject, place in pairs:
            number += 1
            yield number, subject, place, Random(f"{seed} {number}")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", action="append", choices=["TrainingJob", "Queue", "GPUNode", *OF_NAMESPACES])
    args = parser.parse_args()
    with product("spec-changes", spec.uniform(1, gpus=3, gpu_class="H100", gpu_memory="80Gi")) as tenancy:
        prepare(tenancy)
        run = Run(tenancy)
        node = tenancy.get("gpunodes")["items"][0]["metadata"]["name"]
        wanted = [
            one if one.kind != "GPUNode" else Subject(one.kind, node, part=one.part)
            for one in subjects()
            if not args.kind or one.kind in args.kind
        ]
        ends = time.monotonic() + args.seconds
        for number, subject, place, random in draws(args.seed, wanted):
            if time.monotonic() > ends:
                break
            run.counts[subject.kind] += 1
            run.one_change(subject, place, random, number)
    print(f"{dict(run.counts)}; {len(run.broke)} broke")
    return 1 if run.broke else 0


if __name__ == "__main__":
    sys.exit(main())
