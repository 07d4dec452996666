"""Two releases in one cluster would be two operators with one set of jobs: Helm refuses the second. CRDs of an older
release are brought up to date by hand."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

CHECKOUT = Path(__file__).parents[3]
CHART = CHECKOUT / "charts" / "cotenant"


def test_a_second_release_is_refused_and_leaves_the_first_alone(policies: "Cluster") -> None:
    before = policies.kubectl(
        "get", "deployments,clusterroles", "-A", "-l", "app.kubernetes.io/name=cotenant", "-o=name"
    )
    install = ("install", "second", str(CHART), "--namespace", "elsewhere", "--create-namespace")
    try:
        done = subprocess.run(policies.command("helm", *install), capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "cannot be imported into the current release" in done.stderr
        after = policies.kubectl(
            "get", "deployments,clusterroles", "-A", "-l", "app.kubernetes.io/name=cotenant", "-o=name"
        )
        assert after == before != ""
    finally:
        policies.kubectl("delete", "namespace", "elsewhere", "--ignore-not-found", "--wait=false")


@pytest.mark.parametrize(
    ("act", "served", "refused"),
    [
        ("--is-upgrade", ("cotenant.dev/v1alpha1",), True),
        ("--is-upgrade", ("cotenant.dev/v1alpha1", "cotenant.dev/v1beta1"), False),
        ("--is-upgrade", (), False),
        ("--no-hooks", ("cotenant.dev/v1alpha1",), False),
    ],
    ids=["old CRDs", "new CRDs", "none", "an installation, of which other tools apply the CRDs"],
)
def test_an_upgrade_before_that_of_its_crds_is_refused_with_the_command(
    helm: Callable[..., subprocess.CompletedProcess[str]], act: str, served: tuple[str, ...], refused: bool
) -> None:
    versions = [word for one in served for word in ("--api-versions", one)]
    done = helm("template", "release", str(CHART), act, *versions)
    assert (done.returncode != 0) == refused, done.stderr
    assert ("kubectl apply --server-side --force-conflicts -f charts/cotenant/crds/" in done.stderr) == refused


def test_crds_are_brought_up_to_date_by_the_command_that_administrators_are_given(policies: "Cluster") -> None:
    page = (CHECKOUT / "docs/install.md").read_text()
    said = re.search(r"(?m)^kubectl (apply [^#\n]*charts/cotenant/crds/)", page)
    assert said is not None
    arguments = [str(CHART / "crds") if "crds" in word else word for word in said[1].split()]
    where = "/spec/versions/0/schema/openAPIV3Schema/description"
    older = json.dumps([{"op": "add", "path": where, "value": "as Helm once made it"}])
    crd = ("crd", "queues.cotenant.dev")
    policies.kubectl("patch", *crd, "--type=json", "--field-manager=helm", "-p", older)
    policies.kubectl(*arguments)
    found = json.loads(policies.kubectl("get", *crd, "-o", "json"))["spec"]["versions"][0]["schema"]
    wanted = yaml.safe_load((CHART / "crds/queues.yaml").read_text())["spec"]["versions"][0]["schema"]
    assert found["openAPIV3Schema"].get("description") == wanted["openAPIV3Schema"].get("description")
