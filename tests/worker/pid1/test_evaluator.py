"""The evaluator's pod: a job of one rank to its launcher, and an evaluator to its program."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from cotenant.contract import Contract, EvaluatorSpec
from cotenant_worker.pid1.entry import check, own_contract
from cotenant_worker.pid1.evaluator import told_of
from cotenant_worker.ranks.environment import base_environment, rank_environment
from cotenant_worker.supervision.commands import Finish
from cotenant_worker.supervision.worker_group import WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract

OWN = EvaluatorSpec("train-1-e0.train", "command", ("python", "evaluate.py"), cpu_milli=3000)


def evaluated(**fields: object) -> Contract:
    job = contract([2, 1], command=("python", "train.py"), node_rank=2, evaluator=OWN)
    return replace(job, **fields)  # type: ignore[arg-type]


def environment(job: Contract, **group: str) -> dict[str, str]:
    alone = own_contract(job)
    made = WorkerGroup(0, assign_ranks(alone, {0: "10.0.0.9"}), "10.0.0.9", 24001, 24002, **group)  # type: ignore[arg-type]
    return base_environment({}, alone, cpus=8) | rank_environment(alone, made, made.ranks[0])


def test_its_program_is_told_its_role_and_the_cluster_of_the_ranks() -> None:
    job = evaluated()
    env = environment(job)
    hosts = [pod.host for pod in job.pods]
    assert env["COTENANT_ROLE"] == "evaluator"
    assert json.loads(env["TF_CONFIG"]) == {
        "cluster": {"worker": [f"{hosts[0]}:23000", f"{hosts[0]}:23001", f"{hosts[1]}:23000"]},
        "task": {"type": "evaluator", "index": 0},
    }


def test_it_is_alone_in_its_group_and_sees_no_gpu() -> None:
    env = environment(evaluated())
    looked_at = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "CUDA_VISIBLE_DEVICES", "COTENANT_COLLECTIVE")
    assert [env[name] for name in looked_at] == ["0", "1", "10.0.0.9", "", "gloo"]


def test_it_has_threads_for_its_own_cpus() -> None:
    assert environment(evaluated())["OMP_NUM_THREADS"] == "3"


def test_no_checkpoint_is_chosen_for_it_so_that_it_finds_the_newest_each_time() -> None:
    assert environment(evaluated(), resume_from="/checkpoints/7")["COTENANT_RESUME_FROM"] == ""


def test_it_needs_no_token_and_its_contract_holds() -> None:
    job = evaluated(strategy="ParameterServer", servers=("s0",), node_rank=3, workers_min=1)
    check(own_contract(job), {"POD_IP": "10.0.0.9"})


def test_it_writes_to_no_tracker_and_has_no_limit_for_ranks_that_make_no_steps() -> None:
    job = evaluated(platform={"tracking": {"mlflow": {}}, "stallTimeoutSeconds": 60, "preflight": False})
    assert own_contract(job).platform.keys() == {"preflight", "role", "cpuMilli", "tensorflowCluster"}


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("rank 0 ended with 1: ValueError: rank 0", "the evaluator ended with 1: ValueError: the evaluator"),
        (
            "rank 0 was killed by the kernel: out of host memory. Ask for more in resources.memory",
            "the evaluator was killed by the kernel: out of host memory. Ask for more in evaluator.resources.memory",
        ),
    ],
)
def test_its_end_is_told_as_that_of_an_evaluator_and_of_no_rank(said: str, told: str) -> None:
    finish = Finish(1, "UserError", said, rank=0)
    assert told_of(own_contract(evaluated()), finish) == Finish(1, "UserError", told)
    assert told_of(contract([1], command=("x",)), finish) is finish


@pytest.mark.parametrize("node_rank", [0, 1])
def test_a_pod_of_ranks_keeps_the_contract_of_the_attempt(node_rank: int) -> None:
    job = evaluated(node_rank=node_rank)
    assert own_contract(job) is job


def test_the_ranks_are_told_that_they_are_workers() -> None:
    job = contract([1], command=("python", "train.py"))
    group = WorkerGroup(0, assign_ranks(job, {0: "10.0.0.1"}), "10.0.0.1", 24001, 24002)
    assert rank_environment(job, group, group.ranks[0])["COTENANT_ROLE"] == "worker"


def test_rank_0_alone_is_told_that_it_is_the_chief() -> None:
    job = contract([2], command=("python", "train.py"), platform={"chief": True})
    group = WorkerGroup(0, assign_ranks(job, {0: "10.0.0.1"}), "10.0.0.1", 24001, 24002)
    assert [rank_environment(job, group, each)["COTENANT_ROLE"] for each in group.ranks] == ["chief", "worker"]


def test_it_knows_the_chief_and_is_none() -> None:
    env = environment(evaluated(platform={"chief": True}))
    cluster = json.loads(env["TF_CONFIG"])["cluster"]
    assert (env["COTENANT_ROLE"], len(cluster["chief"]), len(cluster["worker"])) == ("evaluator", 1, 2)


@pytest.mark.parametrize(("rank", "field"), [(0, "chief.resources.memory"), (1, "resources.memory")])
def test_a_chief_without_memory_is_told_of_its_own(rank: int, field: str) -> None:
    job = contract([2], command=("x",), platform={"chief": True})
    said = "rank {} was killed by the kernel: out of host memory. Ask for more in {}"
    finish = Finish(137, "OutOfMemory", said.format(rank, "resources.memory"), rank=rank)
    assert told_of(job, finish) == replace(finish, message=said.format(rank, field))
