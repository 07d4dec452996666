"""Amounts that a pod has to name because quotas count them."""

from __future__ import annotations

import pytest

from cotenant.controller.manifests.quota_amounts import demanded_by, with_amounts

QUOTA = (
    'pods "train-1-0" is forbidden: failed quota: team: must specify limits.cpu for: worker; limits.memory for: worker'
)
LIMITS = 'Invalid value: "1": must be less than or equal to cpu limit of 500m'
GATEKEEPER = (
    'admission webhook "validation.gatekeeper.sh" denied the request: [container-must-have-limits] container <worker>'
    " has no cpu limit"
)
KYVERNO = (
    'admission webhook "validate.kyverno.svc-fail" denied the request: \n\nresource Pod/red/train-1-0 was blocked due'
    " to the following policies\n\nrequire-limits:\n  validate: 'validation error: CPU and memory resource limits are"
    " required. rule validate failed at path /spec/containers/0/resources/limits/cpu/'\n"
)
LIMIT_RANGE = (
    'pods "train-1-0" is forbidden: [maximum cpu usage per Pod is 32.  No limit is specified., cpu max limit to request'
    " ratio per Container is 4, but no limit is specified or limit is 0., minimum ephemeral-storage usage per Pod is"
    " 1Gi.  No request is specified.]"
)
TOO_MUCH = (
    "maximum cpu usage per Pod is 32, but request is 64., maximum memory usage per Pod is 64Gi, but limit is 90Gi."
)
POLICY = "ValidatingAdmissionPolicy 'limits' with binding 'all' denied request: name a limit of CPU"
REQUESTS = {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"memory": "4Gi"}}


@pytest.mark.parametrize(
    ("refusal", "demanded"),
    [
        (QUOTA, {"limits.cpu", "limits.memory"}),
        ("must specify requests.cpu", {"requests.cpu"}),
        (LIMITS, {"limits.cpu"}),
        ("exceeded quota: team, requested: limits.cpu=2, used: limits.cpu=8, limited: limits.cpu=8", set()),
        ("denied by policy", set()),
        ('admission webhook "jobs.example.com" denied the request: cpu.example.com is not a registry', set()),
        (GATEKEEPER, {"limits.cpu"}),
        (KYVERNO, {"limits.cpu", "limits.memory"}),
        (POLICY, {"limits.cpu"}),
        (LIMIT_RANGE, {"limits.cpu", "requests.ephemeral-storage"}),
        (TOO_MUCH, set()),
    ],
    ids=["a quota on limits", "a quota on requests", "a default limit below the request", "a full quota", "a policy",
         "a policy about something else", "Gatekeeper", "Kyverno", "a ValidatingAdmissionPolicy",
         "a LimitRange", "a LimitRange that is below the request"],
)  # fmt: skip
def test_a_refusal_names_the_amounts_that_it_asks_for(refusal: str, demanded: set[str]) -> None:
    assert demanded_by(refusal) == demanded


@pytest.mark.parametrize(
    ("demanded", "limits"),
    [
        (set(), {"memory": "4Gi"}),
        ({"limits.cpu"}, {"memory": "4Gi", "cpu": "2"}),
        ({"requests.cpu"}, {"memory": "4Gi"}),
        ({"limits.ephemeral-storage"}, {"memory": "4Gi", "ephemeral-storage": "512Mi"}),
    ],
    ids=["nothing", "a limit of CPU", "a request that is there", "a limit of scratch space"],
)
def test_a_limit_that_is_asked_for_is_the_request(demanded: set[str], limits: dict[str, str]) -> None:
    assert with_amounts(REQUESTS, demanded, 512)["limits"] == limits


def test_what_a_job_does_not_name_stays_unnamed() -> None:
    assert with_amounts({"requests": {"memory": "1Gi"}}, {"limits.cpu", "requests.ephemeral-storage"}) == {
        "requests": {"memory": "1Gi"}
    }
