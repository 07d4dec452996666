"""What a rank's program finds in its environment."""

import json
from dataclasses import replace

import pytest

from cotenant.contract import Contract, GpuGrant, PodGrant, RankGrant
from cotenant_worker.host import layout
from cotenant_worker.ranks.environment import (
    base_environment,
    choose_collective,
    rank_environment,
)
from cotenant_worker.supervision.worker_group import RankAssignment, WorkerGroup, assign_ranks
from tests.support.pod_sandbox import contract, uuid_of


def group_of(job: Contract, *absent: int) -> WorkerGroup:
    addresses = {pod: f"10.0.0.{pod + 1}" for pod in range(len(job.pods)) if pod not in absent}
    return WorkerGroup(
        generation=3,
        ranks=assign_ranks(job, addresses),
        master_addr="10.0.0.1",
        master_port=24001,
        coordinator_port=24002,
        reduce_port=24003,
        restart_count=2,
    )


def as_real(job: Contract) -> Contract:
    pods = tuple(
        replace(pod, ranks=tuple(replace(r, gpus=(replace(r.gpus[0], simulated=False),)) for r in pod.ranks))
        for pod in job.pods
    )
    return replace(job, pods=pods)


@pytest.mark.parametrize(
    ("simulated", "second"),
    [
        pytest.param(True, "1", id="simulated: CUDA shows nothing, so ranks count inside their pod"),
        pytest.param(False, "0", id="real: cuda:LOCAL_RANK is the rank's one GPU"),
    ],
)
def test_every_rank_gets_exactly_the_gpus_of_its_grant_and_a_group_that_is_consistent(
    simulated: bool, second: str
) -> None:
    job = contract([2, 1]) if simulated else as_real(contract([2, 1]))
    group = group_of(job)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "CUDA_VISIBLE_DEVICES")
    found = [[rank_environment(job, group, member)[name] for name in names] for member in group.ranks]
    assert found == [
        ["0", "3", "0", "10.0.0.1", "24001", uuid_of("0a")],
        ["1", "3", second, "10.0.0.1", "24001", uuid_of("1a")],
        ["2", "3", "0", "10.0.0.1", "24001", uuid_of("2a")],
    ]


@pytest.mark.parametrize(
    ("command", "visibility"),
    [
        pytest.param(("python", "train.py"), "Pod", id="the job says so"),
        pytest.param(("torchrun", "--nproc-per-node=2", "train.py"), "", id="torchrun's way"),
        pytest.param(("python", "-m", "torch.distributed.run", "train.py"), "", id="torchrun's module"),
    ],
)
def test_with_the_whole_pod_visible_ranks_count_inside_their_pod(command: tuple[str, ...], visibility: str) -> None:
    job = as_real(
        replace(contract([2, 1], command=command), platform={"gpuVisibility": visibility} if visibility else {})
    )
    group = group_of(job)
    names = ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "CUDA_VISIBLE_DEVICES", "JAX_LOCAL_DEVICE_IDS")
    both = f"{uuid_of('0a')},{uuid_of('1a')}"
    found = [[rank_environment(job, group, member)[name] for name in names] for member in group.ranks]
    assert found == [["0", "2", "0", both, "0"], ["1", "2", "0", both, "1"], ["0", "1", "1", uuid_of("2a"), "0"]]


def test_a_command_of_torchrun_sees_its_own_gpus_where_its_local_rank_would_choose_wrong() -> None:
    gpus = [GpuGrant(f"GPU-{name}", 81920, 1000, whole=True) for name in "abcd"]
    two_each = (RankGrant(0, tuple(gpus[:2])), RankGrant(1, tuple(gpus[2:])))
    one_for_both = (RankGrant(0, (gpus[0],)), RankGrant(1, (gpus[0],)))
    for ranks, visibility, want in (
        (two_each, "", "GPU-c,GPU-d"),
        (two_each, "Pod", "GPU-a,GPU-b,GPU-c,GPU-d"),
        (one_for_both, "", "GPU-a"),
        ((RankGrant(0, (gpus[0],)), RankGrant(1, (gpus[1],))), "Rank", "GPU-b"),
    ):
        job = contract([2], command=("torchrun", "x.py"), platform={"gpuVisibility": visibility} if visibility else {})
        job = replace(job, pods=(PodGrant("a", ranks),))
        group = group_of(job)
        assert rank_environment(job, group, group.ranks[1])["CUDA_VISIBLE_DEVICES"] == want


def test_ranks_without_gpus_count_inside_their_pod_and_see_none() -> None:
    pods = (PodGrant("a", (RankGrant(0, ()), RankGrant(1, ()))),)
    job = replace(contract([1]), pods=pods)
    group = group_of(job)
    env = rank_environment(job, group, group.ranks[1])
    assert (env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"], env["CUDA_VISIBLE_DEVICES"]) == ("1", "2", "")


def test_a_group_that_lost_a_pod_is_numbered_without_gaps_and_keeps_the_grants() -> None:
    job = contract([1, 1, 1])
    group = group_of(job, 1)
    assert group.ranks == (
        RankAssignment(rank=0, pod=0, ip="10.0.0.1", local_rank=0, grant=0),
        RankAssignment(rank=1, pod=2, ip="10.0.0.3", local_rank=0, grant=2),
    )
    assert rank_environment(job, group, group.ranks[1])["CUDA_VISIBLE_DEVICES"] == uuid_of("2a")


def test_each_framework_finds_its_own_words() -> None:
    job = contract([1, 1])
    group = group_of(job)
    env = rank_environment(job, group, group.ranks[1])
    assert json.loads(env["TF_CONFIG"]) == {
        "cluster": {"worker": ["10.0.0.1:23000", "10.0.0.2:23000"]},
        "task": {"type": "worker", "index": 1},
    }
    assert (env["JAX_COORDINATOR_ADDRESS"], env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"]) == (
        "10.0.0.1:24002",
        "2",
        "1",
    )
    keras = ("KERAS_DISTRIBUTION_JOB_ADDRESSES", "KERAS_DISTRIBUTION_NUM_PROCESSES", "KERAS_DISTRIBUTION_PROCESS_ID")
    assert [env[name] for name in keras] == ["10.0.0.1:24002", "2", "1"]
    assert (env["HOROVOD_RANK"], env["HOROVOD_SIZE"], env["HOROVOD_LOCAL_RANK"]) == ("1", "2", "0")


def test_every_rank_knows_its_place_on_horovods_three_axes() -> None:
    """Simulated GPUs: two ranks on one machine, one on another. Who is second on its machine has no peer across."""
    job = contract([2, 1])
    group = group_of(job)
    axes = ("HOROVOD_RANK", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE")
    names = (*axes, "HOROVOD_HOSTNAME", "HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")
    found = [[rank_environment(job, group, member)[name] for name in names] for member in group.ranks]
    meet = ["10.0.0.1", "24002"]
    assert found == [
        ["0", "0", "2", "0", "2", "machine-0", *meet],
        ["1", "1", "2", "0", "1", "machine-0", *meet],
        ["2", "0", "1", "1", "2", "machine-1", *meet],
    ]


def test_what_would_mislead_a_rank_is_not_inherited() -> None:
    inherited = {
        "RAY_AUTH_TOKEN": "secret",
        "COTENANT_CONTRACT": "{}",
        "SLURM_PROCID": "9",
        "OMPI_COMM_WORLD_RANK": "3",
        "OMPI_MCA_orte_hnp_uri": "1.0;tcp://10.0.0.9:1",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "elsewhere",
        "HOROVOD_CYCLE_TIME": "5",
        "HOME": "/home/me",
        "PYTHONPATH": "/opt/mine",
    }
    env = base_environment(inherited, contract([2]), cpus=8)
    assert set(inherited) & set(env) == {"HOROVOD_CYCLE_TIME", "HOME", "PYTHONPATH"}
    assert env["HOROVOD_CYCLE_TIME"] == "5"
    assert env["HOME"] == "/home/me"
    assert env["OMP_NUM_THREADS"] == "1"
    assert env["PYTHONPATH"].split(":") == [str(layout.HOOK_DIR), "/opt/mine"]
    assert env["COTENANT_CODE_DIR"] == "/workspace"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("NCCL_SOCKET_IFNAME", "net1", id="the interface of NCCL"),
        pytest.param("GLOO_SOCKET_IFNAME", "net1", id="the interface of gloo"),
        pytest.param("ACCELERATE_MIXED_PRECISION", "bf16", id="Accelerate's precision"),
        pytest.param("GRPC_ENABLE_FORK_SUPPORT", "1", id="forks under gRPC"),
        pytest.param("RAY_DEDUP_LOGS", "0", id="a setting of Ray's"),
        pytest.param("RAY_worker_niceness", "15", id="how much Ray's workers give way"),
        pytest.param("PYTHONUNBUFFERED", "", id="buffered output"),
        pytest.param("SUBMITIT_PREEMPT_SIGNAL", "USR1", id="when submitit's tasks save"),
        pytest.param("HOROVOD_GLOO_IFACE", "net1", id="the interface of Horovod"),
        pytest.param("HOROVOD_GLOO_TIMEOUT_SECONDS", "30", id="how long Horovod waits"),
        pytest.param("HOROVOD_CPU_OPERATIONS", "mpi", id="Horovod's operations"),
        pytest.param("JAX_CPU_COLLECTIVES_IMPLEMENTATION", "mpi", id="JAX's collectives"),
        pytest.param("OMPI_ALLOW_RUN_AS_ROOT", "1", id="a permission of Open MPI"),
        pytest.param("OMPI_MCA_btl", "tcp,self", id="a setting of Open MPI"),
    ],
)
def test_what_a_job_sets_is_not_replaced(name: str, value: str) -> None:
    job = contract([1, 1], framework="jax")
    group = group_of(job)
    env = base_environment({name: value}, job, cpus=4, interface="eth0")
    assert (env | rank_environment(job, group, group.ranks[0]))[name] == value


def test_the_workers_of_a_ray_in_the_program_give_way_to_nobody() -> None:
    assert base_environment({}, contract([1]), cpus=4)["RAY_worker_niceness"] == "0"


def test_tasks_of_submitit_save_when_their_pod_is_asked_to_leave() -> None:
    """They pass over SIGTERM: facebookincubator/submitit#1677."""
    assert base_environment({}, contract([1]), cpus=1)["SUBMITIT_PREEMPT_SIGNAL"] == "TERM"


def test_peers_are_reached_by_the_pods_interface_where_the_job_names_none() -> None:
    env = base_environment({}, contract([1, 1]), cpus=4, interface="eth0")
    assert (env["NCCL_SOCKET_IFNAME"], env["GLOO_SOCKET_IFNAME"]) == ("eth0", "eth0")
    assert "NCCL_SOCKET_IFNAME" not in base_environment({}, contract([1, 1]), cpus=4)


@pytest.mark.parametrize(
    ("asked_milli", "cpus", "threads"),
    [(4000, 96, "4"), (1500, 96, "1"), (200, 96, "1"), (16_000, 8, "4"), (None, 96, "1")],
    ids=["its request", "whole CPUs", "at least one", "no more than there are for a rank", "no request is known"],
)
def test_a_rank_takes_as_many_threads_as_its_job_asked_cpus_for(
    asked_milli: int | None, cpus: int, threads: str
) -> None:
    platform = {} if asked_milli is None else {"cpuMilli": asked_milli}
    env = base_environment({}, replace(contract([2]), platform=platform), cpus=cpus)
    assert env["OMP_NUM_THREADS"] == threads


@pytest.mark.parametrize(
    ("ranks", "threads"),
    [([1, 1], ["8", "2"]), ([2], ["2"])],
    ids=["a chief alone in its pod has its own", "a chief beside a worker has the worker's"],
)
def test_a_chief_takes_threads_by_its_own_cpus(ranks: list[int], threads: list[str]) -> None:
    platform = {"cpuMilli": 2000, "chief": True, "chiefCpuMilli": 8000}
    jobs = [replace(contract(ranks), platform=platform, node_rank=rank) for rank in range(len(ranks))]
    assert [base_environment({}, job, cpus=96)["OMP_NUM_THREADS"] for job in jobs] == threads


def test_a_user_cannot_choose_rank_or_gpus() -> None:
    job = contract([1])
    group = group_of(job)
    inherited = {"RANK": "7", "CUDA_VISIBLE_DEVICES": "GPU-of-my-neighbour", "MASTER_ADDR": "elsewhere"}
    env = base_environment(inherited, job, cpus=1) | rank_environment(job, group, group.ranks[0])
    assert (env["RANK"], env["CUDA_VISIBLE_DEVICES"], env["MASTER_ADDR"]) == ("0", uuid_of("0a"), "10.0.0.1")


def real(*uuids: str) -> Contract:
    ranks = tuple(RankGrant(rank, (GpuGrant(uuid, 81920, 1000, whole=True),)) for rank, uuid in enumerate(uuids))
    return replace(contract([1]), pods=(PodGrant("a", ranks),))


def devices(resource: str, *ranks: int) -> Contract:
    """One pod whose ranks have so many devices of this kind each."""
    numbers = iter(range(sum(ranks)))
    grants = tuple(
        RankGrant(rank, tuple(GpuGrant(f"D-{next(numbers)}", 0, 1000, whole=True, resource=resource) for _ in range(n)))
        for rank, n in enumerate(ranks)
    )
    return replace(contract([1]), pods=(PodGrant("a", grants),))


@pytest.mark.parametrize(
    ("resource", "shown", "local"),
    [
        pytest.param("amd.com/gpu", ["0,1", "2,3"], ["0", "0"], id="AMD: its own, counted in the container"),
        pytest.param("google.com/tpu", [None, None], ["0", "1"], id="others: all of the pod, chosen by LOCAL_RANK"),
    ],
)
def test_ranks_find_devices_of_other_makers_and_never_a_variable_of_cudas(
    resource: str, shown: list[str | None], local: list[str]
) -> None:
    job = devices(resource, 2, 2)
    group = group_of(job)
    inherited = {"CUDA_VISIBLE_DEVICES": "0"}
    found = [base_environment(inherited, job, cpus=1) | rank_environment(job, group, one) for one in group.ranks]
    assert [env.get("ROCR_VISIBLE_DEVICES") for env in found] == shown
    assert [env["LOCAL_RANK"] for env in found] == local
    assert not any("CUDA_VISIBLE_DEVICES" in env for env in found)


@pytest.mark.parametrize(
    ("job", "want", "warns"),
    [
        pytest.param(real("GPU-a", "GPU-b"), "nccl", False, id="real GPUs, one rank each: nccl"),
        pytest.param(real("GPU-a", "GPU-a"), "gloo", False, id="two ranks on one GPU: gloo"),
        pytest.param(
            replace(real("GPU-a", "GPU-a"), collective="nccl"), "gloo", True, id="… and nccl asked for: a warning"
        ),
        pytest.param(replace(real("GPU-a"), collective="gloo"), "gloo", False, id="gloo asked for: gloo"),
        pytest.param(devices("amd.com/gpu", 1, 1), "nccl", False, id="devices of AMD: RCCL, by the name of nccl"),
        pytest.param(devices("google.com/tpu", 1), "gloo", False, id="devices without NCCL: the framework's own"),
        pytest.param(
            replace(devices("google.com/tpu", 1), collective="nccl"), "gloo", True, id="… and nccl asked for: a warning"
        ),
        pytest.param(contract([1, 1]), "gloo", False, id="simulated GPUs: gloo"),
        pytest.param(
            replace(contract([1]), collective="nccl"), "gloo", True, id="simulated, nccl asked for: a warning"
        ),
    ],
)
def test_the_collective_is_chosen_by_what_is_there(job: Contract, want: str, warns: bool) -> None:
    chosen, warning = choose_collective(job)
    assert (chosen, bool(warning)) == (want, warns)


@pytest.mark.parametrize(
    ("command", "gpus", "workers", "told"),
    [
        pytest.param(("python", "train.py"), 8, 1, False, id="one program with eight GPUs starts its own ranks"),
        pytest.param(("bash", "run.sh"), 8, 1, False, id="also from a script"),
        pytest.param(("torchrun", "train.py"), 8, 1, True, id="a program of torchrun's reads its variables"),
        pytest.param(("torchrun", "--nproc_per_node=8", "train.py"), 8, 1, False, id="a torchrun of eight processes"),
        pytest.param(("accelerate", "launch", "train.py"), 8, 1, False, id="an accelerate that takes all GPUs"),
        pytest.param(("torchrun", "--nproc_per_node=8", "train.py"), 8, 2, True, id="two workers behind a torchrun"),
        pytest.param(("python", "train.py"), 1, 1, True, id="one program with one GPU"),
        pytest.param(("python", "train.py"), 8, 2, True, id="two programs with eight GPUs each"),
    ],
)
def test_a_rank_that_starts_ranks_of_its_own_is_not_told_that_somebody_has(
    command: tuple[str, ...], gpus: int, workers: int, told: bool
) -> None:
    grants = tuple(GpuGrant(uuid_of(f"{index}"), 81920, 1000, whole=True) for index in range(gpus))
    pods = tuple(PodGrant(f"pod-{rank}", (RankGrant(rank, grants),)) for rank in range(workers))
    job = replace(contract([1]), pods=pods, command=command)
    group = group_of(job)
    env = rank_environment(job, group, group.ranks[0])
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK", "TORCHELASTIC_RUN_ID", "GROUP_RANK"):
        assert (name in env) is told, name
    assert {"MASTER_ADDR", "MASTER_PORT", "COTENANT_RANK", "CUDA_VISIBLE_DEVICES"} <= set(env)


FOR_MACHINES = "torchrun --nnodes=$WORLD_SIZE --node_rank=${RANK} --nproc_per_node=8 --master_addr=$MASTER_ADDR a.py"


@pytest.mark.parametrize(
    ("script", "told"),
    [
        pytest.param(FOR_MACHINES, {"WORLD_SIZE": "1", "RANK": "0"}, id="a script for any number of machines"),
        pytest.param("python a.py --nodes ${WORLD_SIZE:-1}", {"WORLD_SIZE": "1"}, id="only those that it reads"),
        pytest.param("yolo train device=0,1 # not $RANKS", {}, id="a program that starts a process for each GPU"),
    ],
)
def test_a_script_on_one_machine_finds_the_place_that_it_tells_its_launcher(script: str, told: dict[str, str]) -> None:
    grants = tuple(GpuGrant(uuid_of(f"{index}"), 81920, 1000, whole=True) for index in range(8))
    job = replace(contract([1]), pods=(PodGrant("a", (RankGrant(0, grants),)),), command=("bash", "run.sh"))
    group = group_of(job)
    env = rank_environment(job, group, group.ranks[0], script)
    place = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "TORCHELASTIC_RUN_ID"}
    assert {name: env[name] for name in place if name in env} == told
