"""What all pods of an attempt share, and the contract that each of them carries. Pure."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from cotenant import contract, names
from cotenant.controller.manifests import server_pod
from cotenant.controller.manifests.attempt import Attempt, HostAmounts, Program
from cotenant.controller.manifests.base_pod import base_pod, contract_of
from cotenant.controller.manifests.worker_pod import pod
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import WHOLE
from tests.controller.builders import UID, attempt, placement_on
from tests.controller.manifests.expected import SETTINGS, SIMULATED, served


def test_the_contract_tells_every_pod_the_whole_world_and_its_own_place_in_it() -> None:
    grants = [contract.GpuGrant(f"GPU-{node}", 32_768, 400, False, True) for node in ("n1-0", "n1-1", "n2-0")]
    domain = "train.red.svc.cluster.local"
    assert contract_of(attempt(), 1, SETTINGS) == contract.Contract(
        job="train",
        namespace="red",
        uid=UID,
        attempt=3,
        node_rank=1,
        pods=(
            contract.PodGrant(
                f"train-3-0.{domain}", (contract.RankGrant(0, (grants[0],)), contract.RankGrant(1, (grants[1],)))
            ),
            contract.PodGrant(f"train-3-1.{domain}", (contract.RankGrant(2, (grants[2],)),)),
        ),
        mode="entrypoint",
        entrypoint="train:main",
        grace_s=45,
        platform={"cpuMilli": 1500, "askedScratchMib": 0, "scratchMib": 51200},
    )


def test_the_contract_names_a_chief_only_if_the_job_does() -> None:
    led = attempt(chief=HostAmounts(cpu_milli=9000, memory_mib=8192))
    assert contract_of(led, 1, SETTINGS).platform == {
        "cpuMilli": 1500,
        "chief": True,
        "chiefCpuMilli": 9000,
        "askedScratchMib": 0,
        "scratchMib": 51200,
    }


LINUX_LETS = 128 * 1024
"""Bytes of one argument or variable, its name and the byte at its end included (MAX_ARG_STRLEN)."""


@pytest.mark.parametrize(
    "made",
    [
        attempt(*((f"n{number}", 8) for number in range(500))),
        attempt(program=Program(image="i", mode="command", command=("python", *("a" * 65_000 for _ in range(4))))),
        attempt(program=Program(image="i", mode="command", command=("python", "\U0001f600" * 30_000))),
        attempt(program=Program(image="i", mode="command", command=("sh", random.Random(1).randbytes(150_000).hex()))),
    ],
    ids=["four thousand ranks", "long arguments", "characters of many bytes", "what cannot be packed"],
)
def test_a_long_contract_is_carried_by_variables_that_linux_lets_be(made: Attempt) -> None:
    entries = pod(made, 0, SETTINGS, SIMULATED).pod["spec"]["containers"][0]["env"]
    env = {entry["name"]: entry["value"] for entry in entries if "value" in entry}
    assert max(len(f"{name}={value}".encode()) + 1 for name, value in env.items()) <= LINUX_LETS
    assert contract.Contract.from_environment(env) == contract_of(made, 0, SETTINGS)


def test_every_pod_is_told_the_names_of_the_servers_and_a_server_which_it_is() -> None:
    told = [contract_of(served(), node_rank, SETTINGS) for node_rank in range(4)]
    domain = "train.red.svc.cluster.local"
    assert {each.servers for each in told} == {(f"train-3-s0.{domain}", f"train-3-s1.{domain}")}
    assert [each.server for each in told] == [None, None, 0, 1]


def test_a_contract_without_servers_is_one_that_images_from_before_them_read() -> None:
    assert "servers" not in json.loads(contract_of(attempt(), 0, SETTINGS).to_json())


def test_a_whole_gpu_is_said_to_be_whole() -> None:
    whole = attempt(placement=placement_on(("n1", 1), memory_mib=81_920, compute_milli=WHOLE))
    assert contract_of(whole, 0, SETTINGS).pods[0].ranks[0].gpus[0].whole


@pytest.mark.parametrize("knobs", [{"image_pull_secrets": "one, two"}, {"pod_priority_class": "training"}])
def test_settings_of_the_administrator_reach_the_pod(knobs: dict[str, Any]) -> None:
    spec = pod(attempt(), 0, Settings(**knobs), SIMULATED).pod["spec"]
    wanted = {"imagePullSecrets": [{"name": "one"}, {"name": "two"}], "priorityClassName": "training"}
    assert [spec[key] for key in wanted if key in spec] == [
        wanted["imagePullSecrets" if "image_pull_secrets" in knobs else "priorityClassName"]
    ]


@pytest.mark.parametrize(
    ("of_the_job", "of_the_platform", "named"),
    [
        ((), "", None),
        (("team-a-registry",), "", ["team-a-registry"]),
        ((), "mirror", ["mirror"]),
        (("team-a-registry", "mirror"), "mirror", ["team-a-registry", "mirror"]),
    ],
    ids=["neither: the account's own count", "the job's", "the platform's", "both, each once"],
)
def test_an_image_is_pulled_with_the_secrets_of_the_job_and_of_the_platform(
    of_the_job: tuple[str, ...], of_the_platform: str, named: list[str] | None
) -> None:
    program = Program(image="i", mode="command", command=("a",), image_pull_secrets=of_the_job)
    spec = base_pod(attempt(program=program), 0, Settings(image_pull_secrets=of_the_platform))["spec"]
    assert spec.get("imagePullSecrets") == (None if named is None else [{"name": name} for name in named])


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("labels", "sidecar.istio.io/inject", "false"),
        ("labels", "istio.io/dataplane-mode", "none"),
        ("labels", "kuma.io/sidecar-injection", "disabled"),
        ("labels", "admission.datadoghq.com/enabled", "false"),
        ("labels", "instana-autotrace", "false"),
        ("annotations", "linkerd.io/inject", "disabled"),
        ("annotations", "consul.hashicorp.com/connect-inject", "false"),
        ("annotations", "dynatrace.com/inject", "false"),
        ("annotations", "instrumentation.opentelemetry.io/inject-python", "false"),
        ("annotations", "sidecar.opentelemetry.io/inject", "false"),
        ("annotations", "karpenter.sh/do-not-disrupt", "true"),
        ("annotations", "cluster-autoscaler.kubernetes.io/safe-to-evict", "false"),
        ("annotations", "descheduler.alpha.kubernetes.io/prefer-no-eviction", "true"),
    ],
)
def test_no_mesh_and_no_monitoring_agent_joins_a_pod_and_no_autoscaler_takes_its_node(
    part: str, key: str, value: str
) -> None:
    for made in (pod(attempt(), 0, Settings(), SIMULATED).pod, server_pod.pod(served(), 1, Settings())):
        assert made["metadata"][part][key] == value


def test_a_platform_that_gives_users_out_itself_is_not_told_which_user_to_take() -> None:
    ordinary, left = (
        base_pod(attempt(), 0, Settings(run_as_user=user))["spec"]["securityContext"] for user in ("1000", "")
    )
    assert (ordinary["runAsUser"], ordinary["runAsGroup"], ordinary["fsGroup"]) == (1000, 1000, 1000)
    assert not {"runAsUser", "runAsGroup", "fsGroup"} & left.keys()
    assert left["runAsNonRoot"] is True


def test_the_administrator_may_take_these_marks_off_and_the_operators_own_stay() -> None:
    made = base_pod(attempt(), 0, Settings(pod_labels="", pod_annotations="{}"))["metadata"]
    assert (made["annotations"], {key.partition("/")[0] for key in made["labels"]}) == (
        {},
        {"app.kubernetes.io", "cotenant.dev"},
    )


@pytest.mark.parametrize(
    ("nodes", "mode", "wanted"),
    [
        ((("n1", 1),), "command", False),
        ((("n1", 1),), "rayTrain", True),
        ((("n1", 2),), "command", True),
    ],
    ids=["one rank", "a Ray Train driver", "two ranks"],
)
def test_only_a_pod_that_runs_ray_gets_a_token(nodes: tuple[tuple[str, int], ...], mode: Any, wanted: bool) -> None:
    program = Program(image="example.com/worker:1", mode=mode, command=("python", "x.py"))
    made = pod(attempt(*nodes, program=program), 0, SETTINGS, SIMULATED).pod
    told = {entry["name"] for entry in made["spec"]["containers"][0]["env"]}
    assert (names.ENV_RAY_TOKEN in told) is wanted
