"""The variables of TensorFlow, JAX, Keras and Horovod for one rank of a group."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cotenant_worker.ranks import framework_environment
from cotenant_worker.supervision.worker_group import WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract


def group_of(pods: list[int]) -> WorkerGroup:
    addresses = {pod: f"10.0.0.{pod + 1}" for pod in range(len(pods))}
    return WorkerGroup(0, assign_ranks(contract(pods), addresses), "10.0.0.1", 24001, 24002)


def test_tensorflow_gets_the_address_of_every_worker_and_its_own_index() -> None:
    group = group_of([2, 1])
    cluster = {"worker": ["10.0.0.1:23000", "10.0.0.1:23001", "10.0.0.2:23000"]}
    for assignment in group.ranks:
        env = framework_environment.tensorflow(contract([2, 1]), group, assignment)
        assert env == {"TF_CONFIG": env["TF_CONFIG"]}
        assert json.loads(env["TF_CONFIG"]) == {
            "cluster": cluster,
            "task": {"type": "worker", "index": assignment.rank},
        }


def test_tensorflow_has_a_chief_of_its_own_if_the_job_names_rank_0_so() -> None:
    job, group = contract([2, 1], platform={"chief": True}), group_of([2, 1])
    found = [json.loads(framework_environment.tensorflow(job, group, each)["TF_CONFIG"]) for each in group.ranks]
    cluster = {"chief": ["10.0.0.1:23000"], "worker": ["10.0.0.1:23001", "10.0.0.2:23000"]}
    tasks = [("chief", 0), ("worker", 0), ("worker", 1)]
    assert found == [{"cluster": cluster, "task": {"type": role, "index": index}} for role, index in tasks]


def test_tensorflow_alone_is_in_no_cluster() -> None:
    group = group_of([1])
    assert framework_environment.tensorflow(contract([1]), group, group.ranks[0]) == {}


@pytest.mark.parametrize(
    ("framework", "collectives"),
    [
        ("jax", {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}),
        ("keras", {"JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo"}),
        ("pytorch", {}),
        ("", {}),
    ],
)
def test_jax_and_keras_meet_at_the_coordinator(framework: str, collectives: dict[str, str]) -> None:
    job, group = replace(contract([1, 1]), framework=framework), group_of([1, 1])
    assert framework_environment.jax(group, group.ranks[1]) == {
        "JAX_COORDINATOR_ADDRESS": "10.0.0.1:24002",
        "JAX_NUM_PROCESSES": "2",
        "JAX_PROCESS_ID": "1",
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": "10.0.0.1:24002",
        "KERAS_DISTRIBUTION_NUM_PROCESSES": "2",
        "KERAS_DISTRIBUTION_PROCESS_ID": "1",
    }
    assert framework_environment.defaults(job) == {
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_TIMEOUT_SECONDS": "300",
        **collectives,
    }


@pytest.mark.parametrize(
    ("pods", "rendezvous"),
    [
        pytest.param(
            [1, 1],
            {"HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT": "24002"},
            id="several ranks meet at the coordinator",
        ),
        pytest.param([1], {}, id="a group of one has nowhere to meet"),
    ],
)
def test_horovod_gets_the_place_of_a_rank_from_torchs_variables(pods: list[int], rendezvous: dict[str, str]) -> None:
    env = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "5"}
    assert framework_environment.horovod(env, group_of(pods)) == {
        "HOROVOD_RANK": "3",
        "HOROVOD_SIZE": "8",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_HOSTNAME": "machine-5",
        "HOROVOD_CONTROLLER": "gloo",
        **rendezvous,
    }


@pytest.mark.parametrize(
    ("pods", "given", "want"),
    [
        pytest.param([1, 1], {}, {}, id="no proxy"),
        pytest.param([1], {"https_proxy": "http://p:3128"}, {}, id="a rank alone"),
        pytest.param(
            [2, 1],
            {"HTTPS_PROXY": "http://p:3128"},
            dict.fromkeys(("no_proxy", "NO_PROXY"), "localhost,127.0.0.1,10.0.0.1,10.0.0.2"),
            id="a proxy for all",
        ),
        pytest.param(
            [1, 1],
            {"http_proxy": "http://p:3128", "NO_PROXY": ".svc"},
            dict.fromkeys(("no_proxy", "NO_PROXY"), ".svc,localhost,127.0.0.1,10.0.0.1,10.0.0.2"),
            id="exceptions of the job, in capitals alone",
        ),
        pytest.param(
            [1, 1],
            {"grpc_proxy": "http://p:3128", "no_proxy": "a", "NO_PROXY": "b", "no_grpc_proxy": "c"},
            {
                "no_proxy": "a,localhost,127.0.0.1,10.0.0.1,10.0.0.2",
                "NO_PROXY": "b,localhost,127.0.0.1,10.0.0.1,10.0.0.2",
                "no_grpc_proxy": "c,localhost,127.0.0.1,10.0.0.1,10.0.0.2",
            },
            id="exceptions of the job, by every name",
        ),
    ],
)
def test_the_ranks_of_a_job_meet_past_its_proxy(pods: list[int], given: dict[str, str], want: dict[str, str]) -> None:
    assert framework_environment.past_proxies(given, group_of(pods)) == want
