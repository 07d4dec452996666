"""Pods of ranks, compared whole. Pure."""

from __future__ import annotations

import json

from cotenant import contract
from cotenant.controller.manifests.attempt import HostAmounts, Program
from cotenant.controller.manifests.base_pod import contract_of
from cotenant.controller.manifests.worker_pod import pod
from tests.controller.builders import attempt
from tests.controller.manifests.expected import MARKED, OWNED, REAL, SECRET, SETTINGS, SIMULATED


def test_the_pod_of_the_second_node_is_this_one() -> None:
    made = pod(attempt(), 1, SETTINGS, SIMULATED).pod
    told = made["spec"]["containers"][0]["env"][1].pop("value")
    assert made == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train-3-1",
            "namespace": "red",
            "labels": {
                **OWNED["labels"],
                **MARKED,
                "cotenant.dev/attempt": "3",
                "cotenant.dev/node-rank": "1",
                "cotenant.dev/queue": "red",
                "cotenant.dev/role": "worker",
            },
            "annotations": {
                **MARKED,
                "cotenant.dev/placement": '{"grants":{"2":[{"computeMilli":400,"memoryMiB":32768,"uuid":"GPU-n2-0"}]},'
                '"node":"n2","ranks":{"2":["GPU-n2-0"]}}',
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
                "fsGroupChangePolicy": "OnRootMismatch",
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
                            "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "auth_token"}},
                        },
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "CUDA_VISIBLE_DEVICES", "value": "GPU-n2-0"},
                    ],
                    "ports": [{"name": "progress", "containerPort": 8099}],
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": 8099},
                        "initialDelaySeconds": 1,
                        "periodSeconds": 2,
                        "timeoutSeconds": 2,
                        "failureThreshold": 3,
                    },
                    "resources": {"requests": {"memory": "2432Mi", "cpu": "1500m"}, "limits": {"memory": "2432Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                        "seccompProfile": {"type": "RuntimeDefault"},
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


def test_the_head_pod_has_more_room_for_ray_and_asks_for_all_of_its_ranks() -> None:
    resources = pod(attempt(), 0, SETTINGS, SIMULATED).pod["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"memory": "4864Mi", "cpu": "3000m"}, "limits": {"memory": "4864Mi"}}


def test_the_pod_of_a_chief_asks_for_its_amounts_and_those_of_the_ranks_beside_it() -> None:
    led = attempt(
        each=HostAmounts(1500, 2048, 1000), chief=HostAmounts(cpu_milli=9000, memory_mib=8192, scratch_mib=5000)
    )
    first, second = (pod(led, rank, SETTINGS, SIMULATED).pod["spec"] for rank in (0, 1))
    assert first["containers"][0]["resources"]["requests"] == {
        "cpu": "10500m",
        "memory": f"{8192 + 2048 + SETTINGS.reserve_head_mib}Mi",
        "ephemeral-storage": "6000Mi",
    }
    assert first["containers"][0]["resources"]["limits"]["memory"] == f"{8192 + 2048 + SETTINGS.reserve_head_mib}Mi"
    assert first["volumes"][0]["emptyDir"] == {"sizeLimit": "6000Mi"}
    assert second == pod(attempt(each=HostAmounts(1500, 2048, 1000)), 1, SETTINGS, SIMULATED).pod["spec"] | {
        "containers": second["containers"]
    }
    alone = pod(attempt(each=HostAmounts(1500, 2048, 1000)), 1, SETTINGS, SIMULATED).pod["spec"]["containers"][0]
    assert second["containers"][0]["resources"] == alone["resources"]


def test_scratch_space_that_a_job_names_is_asked_for_and_bounds_its_tmp() -> None:
    spec = pod(attempt(each=HostAmounts(1500, 2048, 1000)), 0, SETTINGS, SIMULATED).pod["spec"]
    assert spec["containers"][0]["resources"]["requests"]["ephemeral-storage"] == "2000Mi"  # two ranks
    assert spec["volumes"][0] == {"name": "cotenant-tmp", "emptyDir": {"sizeLimit": "2000Mi"}}


def test_what_a_tenant_may_not_set_does_not_reach_the_container() -> None:
    theirs = ("DATA", "NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "RANK", "LD_PRELOAD", "COTENANT_CONTRACT")
    program = Program(
        image="i", mode="command", command=("x",), env=tuple({"name": name, "value": "mine"} for name in theirs)
    )
    env = pod(attempt(program=program), 0, SETTINGS, REAL).pod["spec"]["containers"][0]["env"]
    assert [entry["name"] for entry in env if entry.get("value") == "mine"] == ["DATA"]


def test_building_twice_gives_the_same() -> None:
    assert json.dumps(pod(attempt(), 0, SETTINGS, REAL).pod) == json.dumps(pod(attempt(), 0, SETTINGS, REAL).pod)
