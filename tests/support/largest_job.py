"""The largest TrainingJob that the API takes, and the largest status that the operator writes of it."""

from __future__ import annotations

import json
import re
from typing import Any

from cotenant import contract
from cotenant.api.resources.job_spec.evaluators import MAX_LABELS, MAX_WORD_CHARS, MAX_WORDS
from cotenant.api.resources.job_spec.machine import MAX_RANKS
from cotenant.api.resources.job_spec.runtime import MAX_ENV, MAX_PROGRAM_CHARS, MAX_PULL_SECRETS, MAX_VOLUMES
from cotenant.api.resources.trainingjob_status import TrainingJobStatus
from cotenant.controller.lifecycle.progress import summary

WIDE = "<"
"""A character of which the API server makes six bytes (`\\u003c`) where it stores JSON."""
MOMENT = "2026-01-01T00:00:00Z"
HOST_NAME_CHARS = 63


def stored_bytes(value: Any) -> int:
    """Size of a document as the API server stores it: Go's JSON, which escapes what HTML would read."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return len(re.sub("[<>&\u2028\u2029]", r"\\u0000", text).encode())


def largest_spec(letter: str = WIDE, workers: int = MAX_RANKS) -> dict[str, Any]:
    """Every list, mapping and text as long as it may be; `letter` is what free texts are made of."""
    name = "n" * 253
    args = [letter * (MAX_PROGRAM_CHARS - 255), *["p"] * 255]
    env = [
        {"name": f"{'E' * 124}_{number:03}", "valueFrom": {"configMapKeyRef": {"name": name, "key": "k" * 253}}}
        for number in range(MAX_ENV)
    ]
    volumes = [
        {
            "name": f"{'v' * 50}{number:03}",
            "mountPath": f"/{'m' * 252}{number:03}",
            "readOnly": True,
            "persistentVolumeClaim": {"claimName": name, "subPath": "s" * 256},
        }
        for number in range(MAX_VOLUMES)
    ]
    selector = {f"{'k' * 250}{number:03}/{'l' * 63}": "v" * 63 for number in range(16)}
    classes = [f"{'c' * 60}{number:03}" for number in range(16)]
    servers = {"servers": 64, "update": "Asynchronous", "nodeSelector": selector, "tolerateGpuTaints": True}
    evaluator = {
        "command": ["\\" * MAX_WORD_CHARS] * MAX_WORDS,
        "resources": {"cpu": "999999m", "memory": "65535Gi"},
        "nodeSelector": dict(list(selector.items())[:MAX_LABELS]),
        "tolerateGpuTaints": True,
        "finishWithin": "8759h59m59s",
    }
    return {
        "queue": "q" * 63,
        "profile": "p" * 63,
        "priorityClassName": name,
        "workers": workers,
        "minWorkers": 1,
        "gpu": {"memoryFraction": "0.125", "computeFraction": "0.125", "classes": classes, "zones": classes},
        "resources": {"cpu": "999999m", "memory": "65535Gi", "scratch": "65535Gi"},
        "chief": {"resources": {"cpu": "999999m", "memory": "65535Gi", "scratch": "65535Gi"}},
        "topology": {"level": "node", "mode": "Preferred"},
        "expectedRuntime": "8759h59m59s",
        "maxRuntime": "8759h59m59s",
        "idleTimeout": "8759h59m59s",
        "gracePeriod": "23h59m59s",
        "ttlAfterFinished": "8759h59m59s",
        "retries": 100,
        "checkpoint": {
            "volume": {"persistentVolumeClaim": {"claimName": name, "subPath": "s" * 256}},
            "path": "p" * 512,
            "interval": "8759h59m59s",
        },
        "evaluator": evaluator,
        "runtime": {
            "image": "i" * 512,
            "imagePullSecrets": [{"name": f"{'p' * 250}{number:03}"} for number in range(MAX_PULL_SECRETS)],
            "command": args,
            "env": env,
            "volumes": volumes,
            "code": {"persistentVolumeClaim": {"claimName": name, "subPath": "s" * 256}},
            "framework": "tensorflow",
            "strategy": "ParameterServer",
            "parameterServer": servers,
            "collective": "gloo",
            "precision": "bf16",
            "gpuVisibility": "Rank",
            "gpuProcesses": 64,
            "hangTimeout": "8759h59m59s",
            "stallTimeout": "8759h59m59s",
            "tracking": {
                "tensorBoard": {"path": "t" * 256},
                "mlflow": {"trackingUri": f"http://{letter * 505}", "experiment": letter * 256},
            },
        },
    }


def largest_profile(letter: str = WIDE) -> dict[str, Any]:
    """Spec of a TrainingProfile, every list and text as long as it may be."""
    job = largest_spec(letter)
    runtime = {name: job["runtime"][name] for name in ("image", "framework", "parameterServer")}
    names = job["gpu"]["classes"]
    bounds = {"workers": {"min": 1, "max": MAX_RANKS}, "gpus": {"min": 0, "max": 64}, "classes": names, "zones": names}
    bounds |= {"resources": job["resources"], "chief": job["resources"]}
    return {
        **{name: job[name] for name in ("workers", "minWorkers", "gpu", "resources", "chief", "topology")},
        "description": letter * 256,
        "runtime": runtime,
        "evaluator": {name: job["evaluator"][name] for name in ("resources", "nodeSelector", "tolerateGpuTaints")},
        "allowed": bounds | {"images": [f"{'i' * 253}{number:03}" for number in range(16)]},
    }


def largest_job(letter: str = WIDE, workers: int = MAX_RANKS) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": "j" * 50, "namespace": "default"},
        "spec": largest_spec(letter, workers),
    }


def placement(ranks: int = MAX_RANKS, *, node_chars: int = HOST_NAME_CHARS) -> dict[str, Any]:
    """Each rank on a node of its own, which takes the most room."""
    nodes = [
        {
            "node": str(rank).zfill(node_chars),
            "ranks": [
                {"rank": rank, "gpus": [{"uuid": f"GPU-{rank:036}", "memoryMiB": 1_048_576, "computeMilli": 1000}]}
            ],
        }
        for rank in range(ranks)
    ]
    return {"nodes": nodes, "admittedAt": MOMENT, "workers": ranks, "isolation": "Cooperative", "servers": 64}


def overfull_status(letter: str = WIDE) -> TrainingJobStatus:
    """A status with more of everything than is written, except the placement, which is that of the largest job."""
    long = letter * 20_000
    many = {f"{letter * 120}{number}": letter * 100 for number in range(1000)}
    progress = summary(
        contract.Progress(
            state="training",
            observed_gpus={str(rank): [f"GPU-{rank:036}"] for rank in range(MAX_RANKS)},
            memory_peak_mib=dict.fromkeys(map(str, range(MAX_RANKS)), 1_048_576),
        )
    )
    exit_ = {"code": -2147483648, "reason": long, "message": long, "rank": 2047, "signal": 15, "pod": long,
             "node": long, "tail": [long, *[letter * 40] * 500], "at": MOMENT}  # fmt: skip
    return TrainingJobStatus.model_validate(
        {
            "phase": "Evicting",
            "reason": long,
            "message": long,
            "gpus": long,
            "profile": {"name": "p" * 63, "kind": "ClusterTrainingProfile", "generation": 2**53,
                        "spec": largest_profile(letter)},
            "conditions": [
                {"type": f"{letter * 9}{n}", "status": "Unknown", "reason": long, "message": long,
                 "lastTransitionTime": MOMENT, "observedGeneration": 2**53}
                for n in range(100)
            ],
            "placement": placement(),
            "pending": {"reason": long, "message": long, "since": MOMENT, "estimatedStart": MOMENT,
                        "latestStart": MOMENT, "position": 2**53, "ahead": long,
                        "wouldStartIf": long, "change": {f"{letter * 60}{n}": long for n in range(100)},
                        "evidence": many},
            "progress": {
                "summary": long, "state": long, "step": 2**53, "of": 2**53, "rate": 0.123, "percent": 100,
                "remainingSeconds": 2**53, "collective": long, "warnings": [long] * 100, "updatedAt": MOMENT,
                "metrics": many,
                "lastCheckpoint": {"step": 2**53, "at": MOMENT}, "restarts": 2**53,
                "observedGpus": progress.observed_gpus, "memoryPeakMiB": progress.memory_peak_mib,
            },
            "isolation": "Cooperative",
            "evaluator": {"state": long, "reason": long, "message": long, "restarts": 2**53, "pods": 2**53,
                          "retryAt": MOMENT},
            "usage": {"gpuSeconds": 2**53, "gpuMilliseconds": 2**53, "runSeconds": 2**53},
            "results": many,
            "attempts": 2**53, "failures": 2**53, "faults": 2**53, "savedAtFault": 2**53, "restarts": 2**53,
            "lastExit": exit_, "earlierExits": [exit_] * 10,
            "eviction": {"kind": long, "message": long, "inFavourOf": long, "at": MOMENT, "done": True},
            "excludedNodes": [{"node": f"{n:0253}", "until": MOMENT, "reason": long} for n in range(1000)],
            "startedAt": MOMENT, "finishedAt": MOMENT, "observedGeneration": 2**53,
        }
    )  # fmt: skip
