"""A job counts against the user who made it, as the API server knows him; it stays his, his team goes on with it."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kubernetes
import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from cotenant_local.host.patience import stretched

if TYPE_CHECKING:
    from cotenant_local.cluster.lifecycle import Cluster

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[4] / "charts" / "cotenant"
KIND = ("cotenant.dev", "v1beta1", "default", "trainingjobs")
MERGE = "application/merge-patch+json"
MUTATING = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"


def as_user(name: str) -> dict[str, str]:
    return {"Impersonate-User": name, "Impersonate-Group": "system:masters"}


ALICE, SUBMITTER = as_user("alice@example.com"), as_user("system:serviceaccount:ops:submitter")
ROBOT = as_user("system:serviceaccount:default:robot")
ROBOTS = "system:serviceaccount:default:*"


def document(name: str, user: str | None) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "annotations": {} if user is None else {"cotenant.dev/user": user}},
        "spec": {"queue": "team-a", "gpu": {"count": 1}, "runtime": {"entrypoint": "train:main"}},
    }


@pytest.fixture(scope="module")
def fills_in(request: pytest.FixtureRequest) -> bool:
    """True if the API server fills the user in. Older ones can only refuse a job without it."""
    return not request.config.getoption("--oldest")


@pytest.fixture(scope="module")
def jobs(policies: "Cluster") -> Iterator[Any]:
    client = kubernetes.config.new_client_from_config(str(policies.kubeconfig))
    custom = kubernetes.client.CustomObjectsApi(client)
    custom.create_namespaced_custom_object(*KIND, document("hers", "alice@example.com"), _headers=ALICE)
    custom.create_namespaced_custom_object(*KIND, document("nobodys", "bob@example.com"), _headers=SUBMITTER)
    body = {"metadata": {"annotations": {"cotenant.dev/user": None}}}  # as jobs are that were made without the policy
    custom.patch_namespaced_custom_object(*KIND, "nobodys", body, _headers=SUBMITTER, _content_type=MERGE)
    yield custom
    for name in ("hers", "nobodys"):
        custom.delete_namespaced_custom_object(*KIND, name)


def outcome(call: Callable[[], Any]) -> str:
    """The user of the job, or the message of the refusal."""
    try:
        return str(call()["metadata"].get("annotations", {}).get("cotenant.dev/user"))
    except ApiException as error:
        return str(json.loads(error.body or "{}").get("message"))


IS_MISSING = "metadata.annotations[cotenant.dev/user] is missing: write"
ALICE_FILLED = ("alice@example.com", f"{IS_MISSING} alice@example.com, which is you")
"""From 1.36 on, and before."""


def check(found: str, want: str | tuple[str, str], *, fills_in: bool) -> None:
    """`want`: the user, or part of the refusal. If the result depends on the API server, one value with filling in and
    one without.
    """
    expected = want if isinstance(want, str) else want[0 if fills_in else 1]
    assert expected in found
    assert ("denied request" in found) == (" " in expected)


@pytest.mark.parametrize(
    ("maker", "named", "want"),
    [
        pytest.param(ALICE, "alice@example.com", "alice@example.com", id="herself"),
        pytest.param(ALICE, None, ALICE_FILLED, id="nobody"),
        pytest.param(ALICE, "", ALICE_FILLED, id="an empty name"),
        pytest.param(
            ALICE, "bob@example.com", "must be alice@example.com, which is you, not bob@example.com", id="another"
        ),
        pytest.param(ROBOT, None, (ROBOTS, f"{IS_MISSING} {ROBOTS}, which is you"), id="a ServiceAccount, nobody"),
        pytest.param(ROBOT, ROBOTS, ROBOTS, id="a ServiceAccount in its normal form"),
        pytest.param(
            ROBOT, "system:serviceaccount:default:robot", "system:serviceaccount:default:robot",
            id="a ServiceAccount by its own name, which counts as the normal form",
        ),
        pytest.param(
            ROBOT, "system:serviceaccount:default:other", f"must be {ROBOTS}, which is you",
            id="a ServiceAccount as another",
        ),
        pytest.param(ROBOT, "alice@example.com", f"must be {ROBOTS}, which is you", id="a ServiceAccount, a person"),
        pytest.param(SUBMITTER, "bob@example.com", "bob@example.com", id="who creates on behalf of others"),
        pytest.param(
            SUBMITTER, None, f"{IS_MISSING} the user for whom you create the job",
            id="who creates on behalf of others and names none",
        ),
    ],
)  # fmt: skip
def test_a_new_job_is_its_makers_who_named(
    jobs: Any, fills_in: bool, maker: dict[str, str], named: str | None, want: str | tuple[str, str]
) -> None:
    body = document("new", named)
    found = outcome(lambda: jobs.create_namespaced_custom_object(*KIND, body, dry_run="All", _headers=maker))

    check(found, want, fills_in=fills_in)


@pytest.mark.parametrize(
    ("name", "user", "want"),
    [
        pytest.param("hers", "alice@example.com", "alice@example.com", id="the same"),
        pytest.param("hers", "bob@example.com", "stays alice@example.com", id="given to another"),
        pytest.param("hers", None, ("alice@example.com", "stays alice@example.com"), id="taken away"),
        pytest.param("nobodys", "alice@example.com", "alice@example.com", id="taken by its editor"),
        pytest.param("nobodys", "bob@example.com", "must be alice@example.com", id="given to another, from nobody"),
    ],
)
def test_a_job_stays_its_makers(
    jobs: Any, fills_in: bool, name: str, user: str | None, want: str | tuple[str, str]
) -> None:
    body = {"metadata": {"annotations": {"cotenant.dev/user": user}}}
    found = outcome(
        lambda: jobs.patch_namespaced_custom_object(
            *KIND, name, body, dry_run="All", _headers=ALICE, _content_type=MERGE
        )
    )
    check(found, want, fills_in=fills_in)


def test_a_colleague_goes_on_with_the_same_file_and_the_job_stays_its_makers(
    policies: "Cluster", fills_in: bool
) -> None:
    """Both use apply, or replace with the name filled in."""

    def kubectl(user: str, *arguments: str, priority: int) -> str:
        body = document("ours", None if fills_in else "alice@example.com")
        body["spec"]["priority"] = priority
        command = policies.command("kubectl", f"--as={user}", "--as-group=system:masters", *arguments, "-f", "-")
        done = subprocess.run(
            command, input=yaml.safe_dump(body), capture_output=True, text=True, check=False, timeout=stretched(60)
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(policies.kubectl("get", "trainingjob", "ours", "-o", "json"))
        return f"{seen['metadata']['annotations']['cotenant.dev/user']} {seen['spec']['priority']}"

    alice, bob, server_side = "alice@example.com", "bob@example.com", ("apply", "--server-side", "--force-conflicts")
    try:
        assert kubectl(alice, *server_side, priority=1) == "alice@example.com 1"
        assert kubectl(alice, *server_side, priority=2) == "alice@example.com 2"
        assert kubectl(bob, *server_side, priority=3) == "alice@example.com 3"
        assert kubectl(bob, "apply", priority=4) == "alice@example.com 4"
        assert kubectl(alice, "apply", priority=5) == "alice@example.com 5"
        assert kubectl(bob, "replace", priority=6) == "alice@example.com 6"
    finally:
        policies.kubectl("delete", "trainingjob", "ours", "--ignore-not-found")


@pytest.mark.parametrize("served", [True, False])
def test_the_name_is_filled_in_where_the_api_server_can_and_insisted_on_everywhere(
    helm: Callable[..., subprocess.CompletedProcess[str]], served: bool
) -> None:
    done = helm("template", "release", str(CHART), *(["--api-versions", MUTATING] if served else []))
    kinds = {
        each["kind"]
        for each in yaml.safe_load_all(done.stdout)
        if each and each["metadata"]["name"] == "cotenant-job-users"
    }

    both = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    assert kinds == (both | {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding"} if served else both)
