"""The installed product as tests reach it: apply as a tenant, look as an administrator, wait with a deadline.

Inputs: manifests. Outputs: what the API server holds. A wait that ends in vain shows the state of all jobs and pods.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.live.e2e.reader import Reader
from tests.live.waiting import timeout, wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster
    from cotenant_local.cluster.spec import ClusterSpec

CHECKOUT = Path(__file__).resolve().parents[3]
SYSTEM = "cotenant-system"
Document = dict[str, Any]


@dataclass
class Tenancy:
    """The installed product, as a tenant and an administrator reach it."""

    cluster: Cluster

    def apply(self, *documents: Document) -> str:
        return self.cluster.kubectl("apply", "-f", "-", stdin=as_list(documents))

    def refused(self, *documents: Document) -> str:
        """What the API server says to a document that it does not take."""
        return self.cluster.kubectl("apply", "-f", "-", stdin=as_list(documents), expect=1)

    def takes_jobs(self) -> bool:
        """An API server looks every five seconds for kinds that a MutatingAdmissionPolicy may change."""
        attempt = self.cluster.command("kubectl", "create", "--dry-run=server", "-f", "-")
        document = json.dumps(training_job("marker"))
        done = subprocess.run(attempt, input=document, capture_output=True, text=True, check=False)
        return "There can be a delay" not in done.stderr

    @cached_property
    def _reader(self) -> Reader:
        return Reader(self.cluster)

    def get(self, *what: str) -> Document:
        """The answer of `kubectl get WHAT -o json`."""
        return self._reader.get(*what)

    def job(self, name: str, namespace: str = "team-a") -> Document:
        return self.get("trainingjob", name, "-n", namespace)

    def jobs(self) -> list[Document]:
        items: list[Document] = self.get("trainingjobs", "-A")["items"]
        return items

    def logs(self, pod: str, namespace: str = "team-a") -> str:
        return self.cluster.kubectl("logs", pod, "-n", namespace)

    def wait(self, until: Callable[[], Any], *, seconds: float = 120, what: str) -> Any:
        """The first true answer of `until` (`wait_until`). Fails with the state of all jobs and pods."""
        return wait_until(until, lambda: f"{what}\n{self._state()}", seconds=seconds, pause_s=0.3)

    def _state(self) -> str:
        table = self.cluster.kubectl("get", "trainingjobs,pods", "-A", "-o", "wide")
        return "\n".join([table, *(json.dumps(job.get("status", {}), indent=1) for job in self.jobs()[:3])])

    def wait_phase(self, name: str, *phases: str, namespace: str = "team-a", seconds: float = 150) -> Document:
        def there() -> Document | None:
            job = self.job(name, namespace)
            return job if job.get("status", {}).get("phase") in phases else None

        found: Document = self.wait(there, seconds=seconds, what=f"{namespace}/{name} is {' or '.join(phases)}")
        return found

    def delete_all(self) -> None:
        self.cluster.kubectl("delete", "trainingjobs", "--all", "-A", "--wait=true", timeout(60))
        self.wait(lambda: not self.get("pods", "-A", "-l", "cotenant.dev/job")["items"], what="no pod of a job is left")


@contextmanager
def product(
    kind: str,
    wanted: ClusterSpec,
    *values: str,
    prepare: Callable[[Cluster], None] = lambda _: None,
    amend: Callable[[Cluster], None] | None = None,
) -> Iterator[Tenancy]:
    """A cluster with the chart installed, its nodes shared by queues, and the tenants of the examples.

    `values` are set in the chart: `agent.pollSeconds=1`. `prepare` is called with the cluster before that; `amend`
    after it, for agents that cannot start as the chart made them: then nobody waits for them here.
    """
    from cotenant_local.cluster import lifecycle

    name = f"{kind}-{os.getpid()}"
    cluster = lifecycle.up(name, wanted, attached=True)
    try:
        tenancy = Tenancy(cluster)
        prepare(cluster)
        arguments = ["upgrade", "--install", "cotenant", str(CHECKOUT / "charts" / "cotenant"), "-n", SYSTEM]
        options = [
            "--create-namespace",
            "--set",
            ",".join(["agent.simulate=true", *values]),
            *([] if amend else ["--wait", timeout(180)]),
        ]
        subprocess.run(cluster.command("helm", *arguments, *options), check=True, capture_output=True, text=True)
        if amend:
            amend(cluster)
        cluster.kubectl("annotate", "nodes", "--all", "--overwrite", "cotenant.dev/shared-by-queues=true")
        cluster.kubectl("apply", "-f", str(CHECKOUT / "examples" / "00-tenants.yaml"))
        tenancy.wait(
            lambda: len(tenancy.get("gpunodes")["items"]) == len(wanted.nodes), what="every agent publishes its node"
        )
        tenancy.wait(tenancy.takes_jobs, what="the API server knows how to fill in whose a job is")
        yield tenancy
    finally:
        lifecycle.down(name)


def as_list(documents: tuple[Document, ...]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(documents)})


def training_job(name: str, namespace: str = "team-a", **spec: Any) -> Document:
    """A small job of one worker that ends at once, unless it is told otherwise."""
    command = spec.pop("command", ["python", "-c", "print('hello')"])
    runtime = {"command": command, **spec.pop("runtime", {})}
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "queue": namespace,
            "workers": 1,
            "gpu": {"memoryFraction": "0.4"},
            "resources": {"cpu": "100m", "memory": "256Mi"},
            "runtime": runtime,
            **spec,
        },
    }
