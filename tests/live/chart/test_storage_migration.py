"""Objects that a release before stored as v1alpha1, under the policies of this one: read in both versions, stored anew
by the administrator's verb, and not changed by it."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from cotenant.api.schema import kinds
from cotenant.cli import main
from cotenant.cli.administrators import migrate
from cotenant.cli.terminal.connection import connect

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

OLD, NEW, TEAM = "cotenant.dev/v1alpha1", "cotenant.dev/v1beta1", "migrated"
OPERATOR = "system:serviceaccount:cotenant-system:cotenant-operator"
CRDS = Path(__file__).parents[3] / "charts" / "cotenant" / "crds"


def document(kind: str, **more: Any) -> dict[str, Any]:
    scope = {} if kind == "Queue" else {"namespace": TEAM}
    return {"apiVersion": OLD, "kind": kind, "metadata": {"name": "before", **scope}, **more}


RUNTIME = {"entrypoint": "train:main"}
JOB = document("TrainingJob", spec={"queue": "before", "gpu": {"count": 1}, "runtime": RUNTIME})
BY_PEOPLE = [
    JOB,
    document("Queue", spec={"namespaces": [TEAM], "quotas": [{"guaranteed": 1}]}),
    document("Session", spec={"queue": "before", "gpu": {"count": 1}, "application": "Shell"}),
    document("TrainingProfile", spec={"gpu": {"count": 1}}),
]
BY_THE_OPERATOR = document("LocalQueue") | {
    "metadata": {"name": "before", "namespace": TEAM, "labels": {"app.kubernetes.io/managed-by": "cotenant"}}
}
NAMES = ("trainingjob", "queue", "session", "trainingprofile", "localqueue")


def read(cluster: Cluster, kind: str) -> dict[str, Any]:
    where = ("-n", TEAM, "-o", "json", "--show-managed-fields")
    found: dict[str, Any] = json.loads(cluster.kubectl("get", f"{kind}.v1beta1.cotenant.dev", "before", *where))
    return found


def definitions(cluster: Cluster) -> list[dict[str, Any]]:
    found = json.loads(cluster.kubectl("get", "crds", "-o", "json"))["items"]
    return [one for one in found if one["spec"]["group"] == "cotenant.dev"]


def stored_versions(cluster: Cluster) -> set[tuple[str, ...]]:
    return {tuple(sorted(one["status"]["storedVersions"])) for one in definitions(cluster)}


def wait_until_stored_as(cluster: Cluster, version: str) -> None:
    """An API server takes a definition into use a while after it was written."""
    flags = argparse.Namespace(kubeconfig=str(cluster.kubeconfig), context=None, namespace=None)
    wanted = [replace(migrate.stored_kind(one), storage=version) for one in definitions(cluster)]
    migrate.wait_until_in_force(connect(flags), wanted, time.sleep)


@pytest.fixture(scope="module")
def before(policies: Cluster) -> Iterator[Cluster]:
    """A cluster whose objects were written while v1alpha1 was stored, with the definitions of this release."""
    crd_names = [f"{resource.plural}.cotenant.dev" for resource in kinds.RESOURCES]
    old = json.dumps([{"op": "replace", "path": f"/spec/versions/{n}/storage", "value": n == 1} for n in (0, 1)])
    try:
        for name in crd_names:
            policies.kubectl("patch", "crd", name, "--type=json", "-p", old)
        wait_until_stored_as(policies, "v1alpha1")
        labels = {"cotenant.dev/tenant": "true", "pod-security.kubernetes.io/enforce": "restricted"}
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM, "labels": labels}}
        policies.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(namespace))
        apply = ("apply", "--server-side", "--field-manager=tenant", "-f", "-")
        policies.kubectl(*apply, stdin=yaml.safe_dump_all(BY_PEOPLE))
        policies.kubectl("create", "--as", OPERATOR, "-f", "-", stdin=yaml.safe_dump(BY_THE_OPERATOR))
        policies.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
        yield policies
    finally:
        policies.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(CRDS))
        policies.kubectl("delete", "queue", "before", "--ignore-not-found")
        policies.kubectl("delete", "namespace", TEAM, "--ignore-not-found", "--wait=false")


def test_what_was_stored_before_is_stored_anew_and_stays_as_it_is(
    before: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stored_versions(before) == {("v1alpha1", "v1beta1")}
    objects = {kind: read(before, kind) for kind in NAMES}
    assert main.main(["migrate", "--yes", "--kubeconfig", str(before.kubeconfig)]) == 0, capsys.readouterr().out
    assert stored_versions(before) == {("v1beta1",)}
    after = {kind: read(before, kind) for kind in NAMES}
    for kind, found in objects.items():
        earlier, later = (one["metadata"].pop("resourceVersion") for one in (found, after[kind]))
        assert found == after[kind], "spec, generation and the owners of fields are as they were"
        assert int(later) > int(earlier), f"{kind} is stored anew"
    again = {kind: before.kubectl("patch", kind, "before", "-n", TEAM, "--type=merge", "-p", "{}") for kind in NAMES}
    assert all("no change" in said for said in again.values()), again
    assert main.main(["migrate", "--kubeconfig", str(before.kubeconfig)]) == 0
    assert "nothing to do" in capsys.readouterr().out


def refused(cluster: Cluster, *arguments: str, stdin: str = "") -> str:
    command = cluster.command("kubectl", *arguments)
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


def test_the_policies_judge_the_old_version_as_the_new(before: Cluster) -> None:
    elsewhere = json.loads(json.dumps(JOB).replace('"before"', '"other"', 1))
    elsewhere["metadata"]["annotations"] = {"cotenant.dev/user": "somebody-else"}
    for version in (OLD, NEW):
        job = yaml.safe_dump(elsewhere | {"apiVersion": version})
        assert "which is you, not somebody-else" in refused(before, "create", "-f", "-", stdin=job)
        local_queue = f"localqueue.{version.rpartition('/')[2]}.cotenant.dev"
        said = refused(before, "label", local_queue, "before", "-n", TEAM, "team=a")
        assert re.search("the operator writes LocalQueues", said), said
