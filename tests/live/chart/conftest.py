"""The chart, installed on the local cluster."""

import subprocess
import uuid
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cotenant_local.host.patience import stretched
from tests.chart.conftest import CHART, NAMESPACE, helm, render
from tests.live.waiting import timeout, wait_until

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

__all__ = ["helm", "render"]  # fixtures that live tests of the chart use too

EXEMPT_USER = "system:serviceaccount:backup:restorer"
"""In the installation of the fixture `policies`: whom `admission.exemptUsers` names."""

OLDER = "policy-older"
"""In the same installation: a tenant's namespace that was there before the policies, without Pod Security."""


class Installed:
    """The chart on a cluster, for the length of a `with` block. Fails with what Helm said.

    Afterwards the GPUNodes go as well, which belong to the Nodes and not to the release: to another test of the same
    cluster they would be GPUs that exist, on nodes that are not its own.
    """

    def __init__(self, cluster: "Cluster", values: Mapping[str, Any], *, wait: bool) -> None:
        self._cluster, self._values, self._wait = cluster, values, wait
        self._release = f"cotenant-{uuid.uuid4().hex[:6]}"

    def _helm(self, *arguments: str, stdin: str | None = None) -> None:
        command = self._cluster.command("helm", *arguments, "--namespace", NAMESPACE)
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=stretched(180))
        assert done.returncode == 0, done.stderr

    def __enter__(self) -> "Installed":
        wait = ["--wait", timeout(120)] if self._wait else []
        arguments = ["install", self._release, str(CHART), "--create-namespace", *wait, "--values", "-"]
        self._helm(*arguments, stdin=yaml.safe_dump(dict(self._values)))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._helm("uninstall", self._release, "--wait", "--cascade", "foreground")  # until the pods are gone
            # Helm sometimes returns before the owners of these objects are gone, and the next release may not adopt
            # them.
            owners = ("daemonset/cotenant-agent", "deployment/cotenant-operator")
            self._cluster.kubectl("wait", "--for=delete", *owners, "-n", NAMESPACE, timeout(120))
        finally:
            self._cluster.kubectl("delete", "gpunodes", "--all")

    def upgrade(self, values: Mapping[str, Any], *, wait: bool = False) -> None:
        patience = ["--wait", timeout(150)] if wait else []
        document = yaml.safe_dump(dict(values))
        self._helm("upgrade", self._release, str(CHART), *patience, "--values", "-", stdin=document)

    def rollback(self) -> None:
        self._helm("rollback", self._release, "--wait", timeout(150))


SHARED = pytest.StashKey[Installed]()
"""Installation that the tests with the fixture `policies` share; not there: none is up."""


@pytest.fixture(scope="session")
def install() -> type[Installed]:
    """`with install(cluster, values, wait=True): …`"""
    return Installed


@pytest.fixture(scope="module")
def policies(api_server: "Cluster", pytestconfig: pytest.Config) -> "Cluster":
    """A cluster with the chart's policies in force. Neither operator nor agents run: they hold without.

    An installation takes half a minute with its end, so it serves all tests that follow one another and want it.
    """
    if SHARED not in pytestconfig.stash:
        nowhere = {"nodeSelector": {"no-node": "has-this"}}
        values = {
            "operator": {"replicas": 1} | nowhere,
            "agent": {"simulate": True} | nowhere,
            "query": {"enabled": False},  # without an operator its API keeps namespaces from ending
            "admission": {"exemptUsers": [EXEMPT_USER, "system:serviceaccount:ops:submitter"]},
        }
        metadata = {"name": OLDER, "labels": {"cotenant.dev/tenant": "true"}}
        older = yaml.safe_dump({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        api_server.kubectl("apply", "-f", "-", stdin=older)
        pytestconfig.stash[SHARED] = Installed(api_server, values, wait=False).__enter__()
        wait_until_in_force(api_server)
    return api_server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, Any, Any]:
    """End the shared installation before a file whose tests do not want it: it would be in their way.

    With the last test of the run its cluster goes.
    """
    result = yield
    shared = item.config.stash.get(SHARED, None)
    if shared is None or nextitem is None or nextitem.path == item.path:
        return result
    if "policies" not in getattr(nextitem, "fixturenames", ()):
        del item.config.stash[SHARED]
        shared.__exit__(None, None, None)
    return result


def wait_until_in_force(cluster: "Cluster") -> None:
    """A policy holds a moment after it was made. This one is made last: when it holds, those before it do."""
    name = f"marker-{uuid.uuid4().hex[:6]}"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": f"object.metadata.name != '{name}'", "message": "in force"}],
        },
    }
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([policy, binding]))
    attempt = cluster.command("kubectl", "create", "configmap", name, "--dry-run=server")

    def in_force() -> bool:
        return "in force" in subprocess.run(attempt, capture_output=True, text=True, check=False).stderr

    wait_until(in_force, "policies come into force", seconds=60)
    for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding"):
        cluster.kubectl("delete", kind, name)
    wait_until_jobs_are_mutated(cluster)


def wait_until_jobs_are_mutated(cluster: "Cluster") -> None:
    """An API server looks every five seconds for kinds that a MutatingAdmissionPolicy may change."""
    job = {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": "marker", "namespace": "default"},
        "spec": {"queue": "any", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
    }
    attempt, document = cluster.command("kubectl", "create", "--dry-run=server", "-f", "-"), yaml.safe_dump(job)

    def refused() -> str:
        return subprocess.run(attempt, input=document, capture_output=True, text=True, check=False).stderr

    wait_until(lambda: "There can be a delay" not in refused(), "jobs are taken", seconds=60)
