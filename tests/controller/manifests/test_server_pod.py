"""Pods of parameter servers, compared whole. Pure."""

from __future__ import annotations

import json
from dataclasses import replace

from cotenant import contract
from cotenant.controller.manifests import server_pod
from cotenant.controller.manifests.base_pod import contract_of
from cotenant.controller.manifests.worker_pod import pod
from cotenant.controller.settings import Settings
from tests.controller.builders import UID, attempt
from tests.controller.manifests.expected import MARKED, OWNED, SECRET, SERVERS, SETTINGS, SIMULATED, served


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
                **MARKED,
                "cotenant.dev/attempt": "3",
                "cotenant.dev/node-rank": "3",
                "cotenant.dev/queue": "red",
                "cotenant.dev/role": "parameter-server",
                "cotenant.dev/server": "1",
            },
            "annotations": MARKED,
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
            "nodeSelector": {"kubernetes.io/os": "linux"},
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
                "fsGroupChangePolicy": "OnRootMismatch",
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
                            "valueFrom": {"secretKeyRef": {"name": SECRET, "key": "auth_token"}},
                        },
                        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
                        {"name": "CUDA_VISIBLE_DEVICES", "value": ""},
                    ],
                    "ports": [{"name": "progress", "containerPort": 8099}],
                    "readinessProbe": {
                        "httpGet": {"path": "/healthz", "port": 8099},
                        "initialDelaySeconds": 1,
                        "periodSeconds": 2,
                        "timeoutSeconds": 2,
                        "failureThreshold": 3,
                    },
                    "resources": {"requests": {"memory": "1408Mi", "cpu": "500m"}, "limits": {"memory": "1408Mi"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                        "seccompProfile": {"type": "RuntimeDefault"},
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


def test_a_server_goes_where_the_job_says_and_to_tainted_gpu_nodes_only_if_it_says_so() -> None:
    wanted = replace(SERVERS, node_selector={"pool": "cpu"}, tolerate_gpu_taints=True)
    spec = server_pod.pod(served(1, wanted), 0, SETTINGS)["spec"]
    linux = {"kubernetes.io/os": "linux"}
    assert (spec["nodeSelector"], spec["tolerations"]) == ({"pool": "cpu"} | linux, SETTINGS.toleration_list)
    spec = server_pod.pod(served(), 0, SETTINGS)["spec"]
    assert (spec["nodeSelector"], "tolerations" in spec) == (linux, False)


def test_the_administrator_may_let_all_servers_onto_tainted_cpu_nodes() -> None:
    pool = {"key": "pool", "operator": "Equal", "value": "cpu"}
    settings = Settings(tolerations='[{"key": "gpu", "operator": "Exists"}]', server_tolerations=json.dumps([pool]))
    plain, beside = (replace(SERVERS, tolerate_gpu_taints=chosen) for chosen in (False, True))
    assert server_pod.pod(served(1, plain), 0, settings)["spec"]["tolerations"] == [pool]
    assert server_pod.pod(served(1, beside), 0, settings)["spec"]["tolerations"] == [pool, *SETTINGS.toleration_list]
    assert pod(attempt(), 0, settings, SIMULATED).pod["spec"]["tolerations"] == SETTINGS.toleration_list
