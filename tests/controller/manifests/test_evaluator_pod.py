"""The pod of an evaluator: the tenant's program without a rank and without a GPU. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cotenant import contract
from cotenant.controller.client.kube import SERVICES
from cotenant.controller.manifests import evaluator_pod
from cotenant.controller.manifests.attempt import Attempt, CpuPod, EvaluatorProgram
from cotenant.controller.manifests.base_pod import contract_of
from cotenant.controller.manifests.side_objects import side_objects
from cotenant.controller.manifests.worker_pod import pod
from tests.controller.builders import UID, attempt
from tests.controller.manifests.expected import SETTINGS, SIMULATED, served

OWN = EvaluatorProgram(mode="command", command=("python", "evaluate.py"), pod=CpuPod(cpu_milli=500, memory_mib=1024))


def evaluated(base: Attempt, own: EvaluatorProgram = OWN) -> Attempt:
    return replace(base, program=replace(base.program, evaluator=own))


def container(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["containers"][0]
    return found


def test_it_has_the_jobs_code_volumes_and_variables_and_no_gpu() -> None:
    made = evaluator_pod.pod(evaluated(served()), SETTINGS)
    env = container(made)["env"]
    assert {"name": "DATA", "value": "theirs"} in env
    assert env[-2:] == [
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
        {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
    ]
    assert {"name": "data", "mountPath": "/data"} in container(made)["volumeMounts"]
    assert {"name": "cotenant-code", "configMap": {"name": "code"}} in made["spec"]["volumes"]
    assert "runtimeClassName" not in made["spec"]
    assert "resourceClaims" not in made["spec"]


def test_it_asks_for_its_own_cpu_and_memory_and_for_nothing_else() -> None:
    assert container(evaluator_pod.pod(evaluated(served()), SETTINGS))["resources"] == {
        "requests": {"memory": "1408Mi", "cpu": "500m"},
        "limits": {"memory": "1408Mi"},
    }


def test_its_kubelet_starts_it_again_where_a_pod_of_ranks_ends_with_its_program() -> None:
    job = evaluated(attempt())
    policies = [
        evaluator_pod.pod(job, SETTINGS)["spec"]["restartPolicy"],
        pod(job, 0, SETTINGS, SIMULATED).pod["spec"]["restartPolicy"],
    ]
    assert policies == ["OnFailure", "Never"]


def test_its_labels_and_its_name_say_that_it_is_no_rank() -> None:
    made = evaluator_pod.pod(evaluated(served()), SETTINGS)["metadata"]
    assert (made["name"], made["labels"]["cotenant.dev/role"]) == ("train-3-e0", "evaluator")
    assert "cotenant.dev/server" not in made["labels"]


def test_it_gets_no_token_so_that_it_joins_neither_ray_nor_a_server() -> None:
    job = evaluated(served())
    named = [{one["name"] for one in container(made)["env"]} for made in (
        evaluator_pod.pod(job, SETTINGS), pod(job, 0, SETTINGS, SIMULATED).pod)]  # fmt: skip
    assert ["RAY_AUTH_TOKEN" in names for names in named] == [False, True]


@pytest.mark.parametrize("servers", [0, 2])
def test_its_contract_names_its_role_behind_ranks_and_servers(servers: int) -> None:
    job = evaluated(served(servers) if servers else attempt())
    told = contract_of(job, job.evaluator_rank, SETTINGS)
    assert (told.role, len(told.servers)) == (contract.Role.EVALUATOR, servers)
    assert contract.Contract.from_environment(told.to_environment()) == told
    assert contract_of(job, 0, SETTINGS).role is contract.Role.WORKER


def test_it_goes_where_the_job_says_and_rather_not_to_gpus() -> None:
    there = CpuPod(cpu_milli=500, memory_mib=1024, node_selector={"pool": "cpu"}, tolerate_gpu_taints=True)
    spec = evaluator_pod.pod(evaluated(served(), replace(OWN, pod=there)), SETTINGS)["spec"]
    assert (spec["nodeSelector"], spec["tolerations"]) == (
        {"pool": "cpu", "kubernetes.io/os": "linux"},
        SETTINGS.toleration_list,
    )
    assert set(spec["affinity"]) == {"nodeAffinity"}
    assert set(spec["affinity"]["nodeAffinity"]) == {"preferredDuringSchedulingIgnoredDuringExecution"}


def test_a_claim_of_one_node_keeps_it_beside_rank_0() -> None:
    spec = evaluator_pod.pod(evaluated(served()), SETTINGS, beside_rank_0=True)["spec"]
    [term] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term == {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {
            "matchLabels": {
                "cotenant.dev/job-uid": UID,
                "cotenant.dev/attempt": "3",
                "cotenant.dev/node-rank": "0",
            }
        },
    }


def test_the_ranks_beside_it_have_names_that_its_tensorflow_cluster_can_say() -> None:
    made = {resource for resource, _ in side_objects(evaluated(attempt(("n1", 1))), "token", SETTINGS)}
    alone = {resource for resource, _ in side_objects(attempt(("n1", 1)), "token", SETTINGS)}
    assert (SERVICES in made, SERVICES in alone) == (True, False)


def test_a_job_without_one_has_no_such_pod() -> None:
    with pytest.raises(ValueError, match="the program of train has no evaluator"):
        evaluator_pod.pod(attempt(), SETTINGS)
