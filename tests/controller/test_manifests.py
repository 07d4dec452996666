"""What is made of a committed placement, compared whole. Pure: no cluster."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from cotenant import contract, names
from cotenant.api.conversion.to_core import from_placement, parse_job, to_placement
from cotenant.api.resources.trainingjob_status import Isolation
from cotenant.controller.manifests import server_pod
from cotenant.controller.manifests.attempt import (
    Attempt,
    GpuFacts,
    Program,
    Servers,
    placement_from_json,
    placement_to_json,
)
from cotenant.controller.manifests.from_job import attempt_of
from cotenant.controller.manifests.gpu_isolation import NodeIsolation, RuntimePath, level
from cotenant.controller.manifests.side_objects import network_policy, service, token_secret
from cotenant.controller.manifests.worker_pod import contract_of, pod
from cotenant.controller.settings import Settings
from cotenant.core.model.objects import WHOLE
from tests.controller.builders import UID, attempt, job_document, placement_on

SETTINGS = Settings(tolerations='[{"key": "gpu", "operator": "Exists"}]')
SIMULATED = RuntimePath(NodeIsolation(simulated=True, best=Isolation.NONE), "nvidia")
REAL = RuntimePath(NodeIsolation(simulated=False, best=Isolation.WATCHED), "nvidia")

OWNED = {
    "labels": {
        "app.kubernetes.io/managed-by": "cotenant",
        "cotenant.dev/job": "train",
        "cotenant.dev/job-uid": UID,
    },
    "ownerReferences": [
        {
            "apiVersion": "cotenant.dev/v1alpha1",
            "kind": "TrainingJob",
            "name": "train",
            "uid": UID,
            "controller": True,
            "blockOwnerDeletion": False,
        }
    ],
}
ONLY_THIS_JOB = {"podSelector": {"matchLabels": {"cotenant.dev/job-uid": UID}}}


def test_the_pod_of_the_second_node_is_this_one() -> None:
    made = pod(attempt(), 1, SETTINGS, SIMULATED)
    told = made["spec"]["containers"][0]["env"][1].pop("value")
    assert made == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-3-1",
            "namespace": "red",
            "labels": {
                **OWNED["labels"],
                "cotenant.dev/attempt": "3",
                "cotenant.dev/node-rank": "1",
                "cotenant.dev/queue": "red",
            },
            "annotations": {
                "cotenant.dev/placement": '{"grants":{"2":[{"computeMilli":400,"memoryMiB":32768,"uuid":"GPU-n2-0"}]},'
                '"node":"n2","ranks":{"2":["GPU-n2-0"]}}'
            },
            "ownerReferences": OWNED["ownerReferences"],
        },
        "spec": {
            "restartPolicy": "Never",
            "hostname": "train-3-1",
            "subdomain": "train",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 45,
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
                        ]
                    }
                }
            },
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "worker",
                    "image": "example.com/worker:1",
                    "command": ["python", "-P", "-m", "cotenant_worker"],
                    "workingDir": "/workspace",
                    "env": [
                        {"name": "HOME", "value": "/tmp"},
                        {"name": "COTENANT_CONTRACT"},
                        {"name": "RAY_AUTH_MODE", "value": "token"},
                        {
                            "name": "RAY_AUTH_TOKEN",
                            "valueFrom": {"secretKeyRef": {"name": "train-3", "key": "auth_token"}},
                        },
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "CUDA_VISIBLE_DEVICES", "value": "GPU-n2-0"},
                    ],
                    "ports": [{"name": "progress", "containerPort": 8099}],
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": 8099},
                        "periodSeconds": 2,
                        "timeoutSeconds": 2,
                        "failureThreshold": 3,
                    },
                    "resources": {"requests": {"memory": "2432Mi", "cpu": "1500m"}, "limits": {"memory": "2432Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [
                        {"name": "cotenant-tmp", "mountPath": "/tmp"},
                        {"name": "cotenant-shm", "mountPath": "/dev/shm"},
                        {"name": "cotenant-code", "mountPath": "/workspace"},
                    ],
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "volumes": [
                {"name": "cotenant-tmp", "emptyDir": {"sizeLimit": "51200Mi"}},
                {"name": "cotenant-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1216Mi"}},
                {"name": "cotenant-code", "emptyDir": {}},
            ],
        },
    }
    assert contract.Contract.from_json(told) == contract_of(attempt(), 1, SETTINGS)


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
    )


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
    entries = pod(made, 0, SETTINGS, SIMULATED)["spec"]["containers"][0]["env"]
    env = {entry["name"]: entry["value"] for entry in entries if "value" in entry}
    assert max(len(f"{name}={value}".encode()) + 1 for name, value in env.items()) <= LINUX_LETS
    assert contract.Contract.from_environment(env) == contract_of(made, 0, SETTINGS)


SERVERS = Servers(cpu_milli=500, memory_mib=1024)


def served(servers: int = 2, wanted: Servers = SERVERS, *nodes: tuple[str, int]) -> Attempt:
    program = Program(
        image="example.com/worker:1",
        mode="command",
        command=("python", "x.py"),
        strategy="ParameterServer",
        env=({"name": "DATA", "value": "theirs"},),
        volumes=({"name": "data", "persistentVolumeClaim": {"claimName": "d"}},),
        mounts=({"name": "data", "mountPath": "/data"},),
        code={"source": {"configMap": {"name": "code"}}},
        servers=wanted,
    )
    return attempt(*nodes, program=program, servers=servers)


def test_the_pod_of_a_server_has_no_gpu_no_rank_and_nothing_of_the_program() -> None:
    made = server_pod.pod(served(), 1, SETTINGS)
    told = made["spec"]["containers"][0]["env"][1].pop("value")
    assert made == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-3-s1",
            "namespace": "red",
            "labels": {
                **OWNED["labels"],
                "cotenant.dev/attempt": "3",
                "cotenant.dev/node-rank": "3",
                "cotenant.dev/queue": "red",
                "cotenant.dev/server": "1",
            },
            "ownerReferences": OWNED["ownerReferences"],
        },
        "spec": {
            "restartPolicy": "Never",
            "hostname": "train-3-s1",
            "subdomain": "train",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 45,
            "affinity": {
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 100,
                            "preference": {
                                "matchExpressions": [
                                    {"key": "cotenant.dev/gpu-class", "operator": "DoesNotExist"},
                                    {"key": "nvidia.com/gpu.present", "operator": "DoesNotExist"},
                                ]
                            },
                        }
                    ]
                }
            },
            "topologySpreadConstraints": [
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {
                        "matchLabels": {"cotenant.dev/job-uid": UID, "cotenant.dev/attempt": "3"},
                        "matchExpressions": [{"key": "cotenant.dev/server", "operator": "Exists"}],
                    },
                }
            ],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "runAsGroup": 65532,
                "fsGroup": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "worker",
                    "image": "example.com/worker:1",
                    "command": ["python", "-P", "-m", "cotenant_worker"],
                    "env": [
                        {"name": "HOME", "value": "/tmp"},
                        {"name": "COTENANT_CONTRACT"},
                        {"name": "RAY_AUTH_MODE", "value": "token"},
                        {
                            "name": "RAY_AUTH_TOKEN",
                            "valueFrom": {"secretKeyRef": {"name": "train-3", "key": "auth_token"}},
                        },
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
                        {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
                    ],
                    "ports": [{"name": "progress", "containerPort": 8099}],
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": 8099},
                        "periodSeconds": 2,
                        "timeoutSeconds": 2,
                        "failureThreshold": 3,
                    },
                    "resources": {"requests": {"memory": "1408Mi", "cpu": "500m"}, "limits": {"memory": "1408Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                    "volumeMounts": [{"name": "cotenant-tmp", "mountPath": "/tmp"}],
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                }
            ],
            "volumes": [{"name": "cotenant-tmp", "emptyDir": {}}],
        },
    }
    assert contract.Contract.from_json(told) == contract_of(served(), 3, SETTINGS)


def test_every_pod_is_told_the_names_of_the_servers_and_a_server_which_it_is() -> None:
    told = [contract_of(served(), node_rank, SETTINGS) for node_rank in range(4)]
    domain = "train.red.svc.cluster.local"
    assert {each.servers for each in told} == {(f"train-3-s0.{domain}", f"train-3-s1.{domain}")}
    assert [each.server for each in told] == [None, None, 0, 1]


def test_a_contract_without_servers_is_one_that_images_from_before_them_read() -> None:
    assert "servers" not in json.loads(contract_of(attempt(), 0, SETTINGS).to_json())


def test_a_server_goes_where_the_job_says_and_to_tainted_gpu_nodes_only_if_it_says_so() -> None:
    wanted = replace(SERVERS, node_selector={"pool": "cpu"}, tolerate_gpu_taints=True)
    spec = server_pod.pod(served(1, wanted), 0, SETTINGS)["spec"]
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"pool": "cpu"}, SETTINGS.toleration_list)
    assert not {"nodeSelector", "tolerations"} & server_pod.pod(served(), 0, SETTINGS)["spec"].keys()


def test_the_administrator_may_let_all_servers_onto_tainted_cpu_nodes() -> None:
    pool = {"key": "pool", "operator": "Equal", "value": "cpu"}
    settings = Settings(tolerations='[{"key": "gpu", "operator": "Exists"}]', server_tolerations=json.dumps([pool]))
    plain, beside = (replace(SERVERS, tolerate_gpu_taints=chosen) for chosen in (False, True))
    assert server_pod.pod(served(1, plain), 0, settings)["spec"]["tolerations"] == [pool]
    assert server_pod.pod(served(1, beside), 0, settings)["spec"]["tolerations"] == [pool, *SETTINGS.toleration_list]
    assert pod(attempt(), 0, settings, SIMULATED)["spec"]["tolerations"] == SETTINGS.toleration_list


@pytest.mark.parametrize(
    ("made", "token", "names_"),
    [
        (attempt(("n1", 1)), False, False),
        (attempt(("n1", 2)), True, False),
        (attempt(("n1", 1), ("n2", 1)), True, True),
        (served(1, SERVERS, ("n1", 1)), True, True),
    ],
    ids=["one rank", "two ranks in a pod", "two pods", "one rank and a server"],
)
def test_pods_get_a_token_and_names_as_far_as_they_have_somebody_to_talk_to(
    made: Attempt, token: bool, names_: bool
) -> None:
    assert (made.needs_token, made.needs_names) == (token, names_)


def test_what_a_job_says_of_its_servers_reaches_their_pods() -> None:
    chosen = {"servers": 3, "update": "Asynchronous", "resources": {"cpu": "2", "memory": "8Gi"}}
    runtime = {"entrypoint": "a:b", "strategy": "ParameterServer", "parameterServer": chosen}
    job = parse_job(job_document(runtime=runtime))
    status = from_placement(placement_on(("n1", 2)), admitted_at=0, isolation=Isolation.NONE, servers=3)
    made = attempt_of(job, status, 1, {}, SETTINGS)
    assert (made.servers, made.program.servers) == (3, Servers(cpu_milli=2000, memory_mib=8192))
    assert contract_of(made, 0, SETTINGS).platform == {"parameterServer": {"update": "Asynchronous"}}


def test_a_whole_gpu_is_said_to_be_whole() -> None:
    whole = attempt(placement=placement_on(("n1", 1), memory_mib=81_920, compute_milli=WHOLE))
    assert contract_of(whole, 0, SETTINGS).pods[0].ranks[0].gpus[0].whole


def test_the_head_pod_has_more_room_for_ray_and_asks_for_all_of_its_ranks() -> None:
    resources = pod(attempt(), 0, SETTINGS, SIMULATED)["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"memory": "4864Mi", "cpu": "3000m"}, "limits": {"memory": "4864Mi"}}


def test_real_gpus_come_by_the_runtime_and_simulated_ones_only_by_name() -> None:
    real, simulated = (pod(attempt(), 0, SETTINGS, path)["spec"] for path in (REAL, SIMULATED))
    uuids = "GPU-n1-0,GPU-n1-1"
    gpu_env = [
        {"name": "CUDA_VISIBLE_DEVICES", "value": uuids},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": uuids},
        {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"},
    ]
    assert (real["runtimeClassName"], real["containers"][0]["env"][-3:]) == ("nvidia", gpu_env)
    assert ("runtimeClassName" in simulated, simulated["containers"][0]["env"][-1]) == (False, gpu_env[0])


def test_what_a_tenant_may_not_set_does_not_reach_the_container() -> None:
    theirs = ("DATA", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "RANK", "LD_PRELOAD", "COTENANT_CONTRACT")
    program = Program(
        image="i", mode="command", command=("x",), env=tuple({"name": name, "value": "mine"} for name in theirs)
    )
    env = pod(attempt(program=program), 0, SETTINGS, REAL)["spec"]["containers"][0]["env"]
    assert [entry["name"] for entry in env if entry.get("value") == "mine"] == ["DATA"]


@pytest.mark.parametrize("knobs", [{"image_pull_secrets": "one, two"}, {"pod_priority_class": "training"}])
def test_settings_of_the_administrator_reach_the_pod(knobs: dict[str, Any]) -> None:
    spec = pod(attempt(), 0, Settings(**knobs), SIMULATED)["spec"]
    wanted = {"imagePullSecrets": [{"name": "one"}, {"name": "two"}], "priorityClassName": "training"}
    assert [spec[key] for key in wanted if key in spec] == [
        wanted["imagePullSecrets" if "image_pull_secrets" in knobs else "priorityClassName"]
    ]


def test_the_service_gives_pods_their_names_before_they_are_ready() -> None:
    assert service(attempt()) == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "train", "namespace": "red", **OWNED},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"cotenant.dev/job-uid": UID},
            "ports": [{"name": "progress", "port": 8099}],
        },
    }


def test_the_token_belongs_to_one_attempt() -> None:
    made = token_secret(attempt(), "secret")
    assert (made["metadata"]["name"], made["immutable"], made["data"]) == (
        "train-3",
        True,
        {names.SECRET_TOKEN_KEY: "c2VjcmV0"},
    )


def test_only_the_same_job_dns_and_the_operators_progress_pass_the_network_policy() -> None:
    settings = Settings(namespace="system", egress_cidrs="10.9.0.0/16")
    dns_ports = [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]
    assert network_policy(attempt(), settings) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "train", "namespace": "red", **OWNED},
        "spec": {
            "podSelector": ONLY_THIS_JOB["podSelector"],
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [
                {"from": [ONLY_THIS_JOB]},
                {
                    "from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "system"}}}],
                    "ports": [{"protocol": "TCP", "port": 8099}],
                },
            ],
            "egress": [
                {"to": [ONLY_THIS_JOB]},
                {
                    "to": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}],
                    "ports": dns_ports,
                },
                {"to": [{"ipBlock": {"cidr": "10.9.0.0/16"}}]},
            ],
        },
    }


def test_building_twice_gives_the_same() -> None:
    assert json.dumps(pod(attempt(), 0, SETTINGS, REAL)) == json.dumps(pod(attempt(), 0, SETTINGS, REAL))


def test_a_placement_survives_the_annotation_and_the_status() -> None:
    placement = placement_on(("n1", 2), ("n2", 1))
    assert tuple(placement_from_json(placement_to_json(node)) for node in placement.nodes) == placement.nodes
    status = from_placement(placement, admitted_at=0, isolation=Isolation.NONE)
    assert to_placement(status) == placement


def test_an_annotation_that_is_not_ours_is_no_placement() -> None:
    assert [placement_from_json(text) for text in ("", "[]", "{}", '{"node": "n1", "grants": {"x": []}}')] == [None] * 4


def test_a_document_with_everything_reaches_the_pod() -> None:
    document = job_document(
        runtime={
            "image": "example.com/mine:2",
            "command": ["python", "train.py"],
            "args": ["--epochs", "3"],
            "code": {"configMap": {"name": "code"}},
            "env": [
                {"name": "A", "value": "1"},
                {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
            "volumes": [
                {"name": "data", "mountPath": "/data", "readOnly": True, "persistentVolumeClaim": {"claimName": "d"}}
            ],
            "precision": "bf16",
            "gpuVisibility": "Pod",
            "gpuProcesses": 4,
            "hangTimeout": "20m",
            "stallTimeout": "1h",
        },
        checkpoint={"volume": {"persistentVolumeClaim": {"claimName": "ckpt"}}, "interval": "5m"},
        gracePeriod="90s",
    )
    job = parse_job(document)
    status = from_placement(placement_on(("n1", 1)), admitted_at=0, isolation=Isolation.NONE)
    made = attempt_of(job, status, 1, {"GPU-n1-0": GpuFacts(memory_mib=81_920, simulated=False)}, SETTINGS)
    spec = pod(made, 0, SETTINGS, REAL)["spec"]
    told = contract_of(made, 0, SETTINGS)
    assert (told.mode, told.command, told.precision, told.checkpoint, told.grace_s) == (
        "command",
        ("python", "train.py", "--epochs", "3"),
        "bf16",
        contract.CheckpointSpec("/checkpoints/train", 300),
        90,
    )
    assert told.platform == {
        "gpuVisibility": "Pod",
        "gpuProcesses": 4,
        "hangTimeoutSeconds": 1200,
        "stallTimeoutSeconds": 3600,
    }
    assert spec["containers"][0]["image"] == "example.com/mine:2"
    assert spec["containers"][0]["env"][:2] == [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]
    assert spec["volumes"][2:] == [
        {"name": "cotenant-code", "configMap": {"name": "code"}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "d"}},
        {"name": "cotenant-checkpoints", "persistentVolumeClaim": {"claimName": "ckpt"}},
    ]
    assert spec["containers"][0]["volumeMounts"][2:] == [
        {"name": "cotenant-code", "mountPath": "/workspace", "readOnly": True},
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "cotenant-checkpoints", "mountPath": "/checkpoints"},
    ]


@pytest.mark.parametrize(
    ("nodes", "reached"),
    [
        ([(True, Isolation.HARD)], Isolation.NONE),
        ([(False, Isolation.COOPERATIVE)], Isolation.COOPERATIVE),
        ([(False, Isolation.WATCHED)], Isolation.WATCHED),
        ([(False, Isolation.HARD)], Isolation.WATCHED),
        ([(False, Isolation.WATCHED), (False, Isolation.COOPERATIVE)], Isolation.COOPERATIVE),
        ([(False, Isolation.WATCHED), (True, Isolation.NONE)], Isolation.NONE),
        ([], Isolation.NONE),
    ],
    ids=str,
)
def test_the_level_is_the_weakest_node_and_never_more_than_the_path_gives(
    nodes: list[tuple[bool, Isolation]], reached: Isolation
) -> None:
    assert level([NodeIsolation(simulated=simulated, best=best) for simulated, best in nodes]) is reached


@pytest.mark.parametrize(
    ("path", "observed", "wrong"),
    [
        (REAL, {"0": ["GPU-n1-0"], "1": ["GPU-n1-1"]}, ""),
        (REAL, {}, ""),
        (REAL, {"0": ["GPU-n1-1"]}, "rank 0 on node n1 sees GPU-n1-1 but was granted GPU-n1-0"),
        (REAL, {"0": ["GPU-n1-0", "GPU-n1-1"], "1": ["GPU-n1-0", "GPU-n1-1"]}, ""),
        (REAL, {"0": ["GPU-n1-0", "GPU-x"]}, "rank 0 on node n1 sees GPU-n1-0, GPU-x but was granted GPU-n1-0"),
        (REAL, {"1": []}, "rank 1 on node n1 sees no GPU but was granted GPU-n1-1"),
        (SIMULATED, {"1": []}, ""),
    ],
    ids=str,
)
def test_what_ranks_see_is_held_against_what_they_were_granted(
    path: RuntimePath, observed: dict[str, list[str]], wrong: str
) -> None:
    assert path.verify(placement_on(("n1", 2)).nodes[0], observed) == wrong


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
    made = pod(attempt(*nodes, program=program), 0, SETTINGS, SIMULATED)
    told = {entry["name"] for entry in made["spec"]["containers"][0]["env"]}
    assert (names.ENV_RAY_TOKEN in told) is wanted
