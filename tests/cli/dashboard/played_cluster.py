"""A cluster to look at: queues, nodes with GPUs, jobs in every standing, as the API server would have them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from cotenant.controller.client import kube
from cotenant.controller.client.kube import Document
from tests.cli.dashboard.fake_caller import FakeCaller
from tests.support.fake_kube import FakeKube

NOW: Final = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
TENANTS: Final = ("vision", "speech", "robotics", "search")
HOSTILE: Final = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>\"'&"
LOG: Final = "\n".join(f"step {step} loss {3 - step / 900:.3f}" for step in range(1200, 1240)) + "\n" + HOSTILE


def at(minutes: float, now: datetime = NOW) -> str:
    """A time so many minutes from now."""
    return (now + timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(namespace: str, name: str, phase: str, now: datetime = NOW, **status: Any) -> Document:
    return {
        "metadata": {"namespace": namespace, "name": name, "creationTimestamp": at(-300, now)},
        "spec": {"queue": namespace, "workers": 2, "gpu": {"count": 1}, "expectedRuntime": "2h"},
        "status": {"phase": phase, "gpus": "2 × 1", "workers": "2", **status},
    }


def share(uuid: str, rank: int = 0, memory: int = 81920, milli: int = 1000) -> dict[str, Any]:
    return {"rank": rank, "gpus": [{"uuid": uuid, "memoryMiB": memory, "computeMilli": milli}]}


def gpu_node(number: int, gpus: int = 8, now: datetime = NOW, **status: Any) -> Document:
    held = (0, 1, 4, 5) if number < 4 else (2, 3, 5, 6)
    listed = [
        {
            "uuid": f"GPU-{number}-{index}",
            "index": index,
            "class": "H100" if number < 4 else "A100",
            "memoryMiB": 81920,
            "healthy": True,
            "used": {"utilizationPercent": (number * 37 + index * 11) % 101} if index in held else {},
        }
        for index in range(gpus)
    ]
    filled = {"heartbeat": at(0, now), "node": "Ready", "isolation": "Watched", "gpus": listed}
    return {"metadata": {"name": f"gpu-node-{number}"}, "status": filled | status}


def quota(gpu_class: str | None, guaranteed: str, used: str, limit: str | None) -> dict[str, Any]:
    return {
        "class": gpu_class,
        "zone": None,
        "guaranteed": guaranteed,
        "effective": guaranteed,
        "used": used,
        "limit": limit,
    }


def queue_tree() -> list[Document]:
    def line(name: str, depth: int, *quotas: dict[str, Any], borrowed: str = "0", ppm: int = 0) -> Document:
        share_sum = {
            "terms": [{"class": "H100", "borrowed": borrowed, "capacity": "32", "ppm": ppm}] if ppm else [],
            "pastPpm": 4200,
            "weight": 1,
            "ppm": ppm + 4200,
        }
        used = str(sum(float(one["used"]) for one in quotas)).removesuffix(".0")
        guaranteed = str(sum(float(one["guaranteed"]) for one in quotas)).removesuffix(".0")
        status = {
            "parent": None if depth == 0 else "research",
            "depth": depth,
            "guaranteed": guaranteed,
            "used": used,
            "borrowed": borrowed,
            "waiting": 3,
            "holding": 4,
            "quotas": list(quotas),
            "share": share_sum,
            "broken": "",
        }
        return {"metadata": {"name": name}, "status": status}

    return [
        line("research", 0, quota("H100", "24", "23", "32")),
        line("vision", 1, quota("H100", "8", "13", "16"), borrowed="5", ppm=156_250),
        line("speech", 1, quota("H100", "8", "6.5", "16"), quota("A100", "4", "1", None)),
        line("robotics", 1, quota("H100", "8", "3.5", "8")),
        line("search", 0, quota("A100", "8", "6", "16")),
    ]


def jobs(now: datetime = NOW) -> Iterator[Document]:
    """Four of each tenant that run, some that wait, some that have ended; one is called by a hostile tenant."""
    for number, tenant in enumerate(TENANTS):
        for index in range(4):
            node = number + 4 * (index % 2)
            ranks = [share(f"GPU-{node}-{index * 2}"), share(f"GPU-{node}-{index * 2 + 1}", 1)]
            if index == 3:
                ranks = [share(f"GPU-{node}-{one}", one - 5, 32768, 400) for one in (5, 6)]
            progress = {
                "summary": f"{400 * index + 300}/2400 ({(400 * index + 300) // 24} %), 1h left",
                "state": "training",
                "step": 400 * index + 300,
                "of": 2400,
                "percent": (400 * index + 300) // 24,
                "remainingSeconds": 3600 + 1200 * index,
                "updatedAt": at(-0.2, now),
                "metrics": {"loss": 1.71 - index / 10, "lr": 0.0003},
                "lastCheckpoint": {"step": 250, "at": at(-22, now)},
                "memoryPeakMiB": {"0": 61440, "1": 61000},
            }
            yield job(
                tenant,
                f"train-{index}",
                "Running",
                now,
                reason="Running",
                progress=progress,
                startedAt=at(-150 + 20 * index, now),
                placement={
                    "nodes": [{"node": f"gpu-node-{node}", "ranks": ranks}],
                    "admittedAt": at(-152, now),
                    "workers": 2,
                },
                isolationLevels={"memory": "Watched", "compute": "Cooperative"},
                usage={"gpuSeconds": 18000, "gpuMilliseconds": 18_000_000, "runSeconds": 9000},
                attempts=1 + index % 2,
                restarts=index % 2,
                conditions=[{"type": "Admitted", "status": "True", "reason": "Placed", "message": ""}],
            )
        for index in range(3):
            pending = {
                "reason": "WaitingForGPUs" if index else "WaitingForQuota",
                "position": number + 4 * index + 1,
                "message": f"Needs 8 GPUs of H100 on one node; {3 - index} are free there.",
                "since": at(-40, now),
                "estimatedStart": at(25 + 30 * index + 5 * number, now),
                "latestStart": at(70 + 30 * index, now),
                "wouldStartIf": "it asked for 4 GPUs a worker",
                "change": {"spec.gpu.count": "4"},
                "ahead": "behind speech/sweep-0: it is older" if number or index else "",
            }
            yield job(tenant, f"sweep-{index}", "Pending", now, pending=pending, gpus="8 × 1", workers="1")
        for index, phase in enumerate(("Succeeded", "Failed")):
            yield job(
                tenant,
                f"eval-{index}",
                phase,
                now,
                startedAt=at(-280 + 30 * number, now),
                finishedAt=at(-200 + 25 * number, now),
                usage={"gpuMilliseconds": 9_600_000 + 1_200_000 * number},
                restarts=index,
                lastExit={"code": index, "reason": "Error" if index else "Completed", "message": "", "attempt": 1},
            )
    yield job(
        "search",
        "hostile",
        "Failed",
        now,
        message=HOSTILE,
        startedAt=at(-90, now),
        finishedAt=at(-80, now),
        lastExit={"code": 1, "reason": "Error", "message": HOSTILE, "tail": [HOSTILE], "attempt": 1},
    )


def explanation(namespace: str, name: str) -> Document:
    ahead = [
        {"job": "vision/sweep-0", "asks": "8 GPUs of H100", "why": "it is older", "queue": "vision"},
        {"job": "a job of another tenant", "asks": "4 GPUs of H100", "why": "its queue borrows less"},
    ]
    status = {
        "standing": "Waiting",
        "queue": namespace,
        "asks": "8 GPUs",
        "priority": 0,
        "submittedAt": at(-300),
        "position": 3,
        "reason": "WaitingForGPUs",
        "message": "Needs 8 GPUs of H100 on one node; 2 are free there.",
        "needsChange": False,
        "ahead": ahead,
        "aheadMore": 4,
        "wouldStartIf": "it asked for 4 GPUs a worker",
        "change": {"spec.gpu.count": 4},
    }
    return {"metadata": {"namespace": namespace, "name": name}, "status": status}


def showbacks(*namespaces: str) -> list[dict[str, Any]]:
    """A hundred GPU-hours of each, of which a tenth is idle and a twentieth lost to preemption, at 2.50."""
    held = {"used": 306_000_000, "idle": 36_000_000, "lostToPreemption": 18_000_000, "lostToFaults": 0}
    status = {"queue": "", "user": "", "gpuClass": "H100", "since": 0, "until": 1, "month": 0, **held}
    money = {"pricePerGPUHour": 2_500_000, "currency": "EUR"}
    return [
        {"metadata": {"namespace": one, "name": "train", "uid": one}, "status": status | money | {"queue": one}}
        for one in namespaces
    ]


def past_runs(now: datetime = NOW) -> list[Document]:
    """Sixty of two tenants, whose jobs are gone: one an hour."""
    outcomes = ("Succeeded", "Succeeded", "Failed", "Deleted")
    return [
        {
            "metadata": {"namespace": TENANTS[number % 2], "name": f"run-{number}", "uid": f"run-{number}"},
            "status": {
                "outcome": outcomes[number % 4], "queue": TENANTS[number % 2], "user": ("ann", "bob")[number // 2 % 2],
                "reason": "ExitCode" if number % 4 == 2 else "", "workers": 2, "gpu": "1", "gpuClass": "H100",
                "gpuSeconds": 3600 + 360 * number, "runSeconds": 1800, "attempts": 1 + number % 3,
                "createdAt": at(-60 * number - 90, now), "startedAt": at(-60 * number - 70, now),
                "finishedAt": at(-60 * number - 30, now),
                "use": {"samples": 40, "busyPercent": (37 * number) % 101, "memoryPercent": 62} if number % 5 else {},
                "cost": {"micros": 2_500_000 + 250_000 * number, "currency": "EUR", "unpricedGPUSeconds": 0},
            },
        }
        for number in range(60)
    ]  # fmt: skip


def gone(now: datetime = NOW) -> Document:
    """Everything that is recorded of the first of these."""
    run = past_runs(now)[0]
    happened = [
        {"at": at(-90, now), "what": "Waits", "reason": "WaitingForGPUs", "message": "Needs 2 GPUs of H100."},
        {"at": at(-70, now), "what": "Admitted", "message": "workers on gpu-node-1 (2): H100"},
        {"at": at(-58, now), "what": "Evicted", "reason": "Reclaimed", "message": "for a job of another tenant"},
        {"at": at(-45, now), "what": "Admitted", "message": "workers on gpu-node-2 (2): H100"},
    ]
    advice = ["Its GPUs did nothing in 61 % of the samples: they wait for data or for the CPU."]
    more = {"timeline": happened, "advice": advice, "tail": ["epoch 3 of 3", "saved"], "steps": 1200}
    return {**run, "status": run["status"] | more}


def lab(now: datetime) -> Document:
    """A session that runs, of a tenant who writes markup."""
    times = {"startedAt": at(-90, now), "lastActivity": at(-25, now), "suspendsAt": at(5, now), "endsAt": at(600, now)}
    status = {"phase": "Running", "job": "lab-session", "attempt": 1, "port": 8888, "path": "/", "message": HOSTILE}
    return {
        "metadata": {"namespace": "speech", "name": "lab", "creationTimestamp": at(-100, now)},
        "spec": {"application": "JupyterLab", "queue": "speech"},
        "status": status | times,
    }


def played(now: datetime = NOW, **caller: Any) -> FakeCaller:
    """Somebody who may read all of it, unless the caller is made otherwise."""
    server = FakeKube()
    for one in jobs(now):
        server.put(kube.TRAINING_JOBS, one)
    for number in range(8):
        server.put(kube.GPU_NODES, gpu_node(number, now=now))
    ill = gpu_node(6, now=now)["status"]["gpus"]
    ill[2] |= {"healthy": False, "health": "Xid 79: fallen off the bus", "drain": True}
    ill[5] |= {"health": "Slow: found slow by jobs of two tenants"}
    server.put(kube.GPU_NODES, gpu_node(6, now=now) | {"status": gpu_node(6, now=now)["status"] | {"gpus": ill}})
    notebook = {
        "podUID": "p",
        "namespace": "speech",
        "pod": "notebook-0",
        "job": "notebook",
        "jobUID": "u",
        "attempt": 1,
        "nodeRank": 0,
        "gpus": [{"uuid": "GPU-4-5", "memoryMiB": 24576, "computeMilli": 300}],
    }
    server.put(kube.GPU_NODES, gpu_node(4, now=now, holders=[notebook]))
    server.put(kube.GPU_NODES, gpu_node(7, now=now, node="Cordoned"))
    server.put(kube.SESSIONS, lab(now))
    for tenant in TENANTS:
        _put_namespaced(server, tenant, now)
    answers = {
        "/apis/query.cotenant.dev/v1alpha1/queuetrees": queue_tree(),
        "/apis/query.cotenant.dev/v1alpha1/runs": past_runs(now),
        "/apis/query.cotenant.dev/v1alpha1/namespaces/vision/runs/run-0": gone(now),
        "/apis/query.cotenant.dev/v1alpha1/namespaces/speech/runs/train-1": past_runs(now)[6],
        "/apis/query.cotenant.dev/v1alpha1/showbacks": showbacks("speech", "vision"),
        "/apis/query.cotenant.dev/v1alpha1/namespaces/speech/explanations/sweep-1": explanation("speech", "sweep-1"),
    }
    return FakeCaller(server, answers=answers, log=LOG, **caller)


def _put_namespaced(server: FakeKube, tenant: str, now: datetime) -> None:
    quotas = [{"gpuClass": "H100", "guaranteed": 8, "limit": 16, "used": 6.5, "free": 3}]
    local = {
        "guaranteed": 8,
        "used": 6.5,
        "usedHere": 6.5,
        "borrowed": 0,
        "free": 3,
        "running": 4,
        "pending": 3,
        "quotas": quotas,
        "budget": {"left": "689", "moneyLeft": "1723 EUR", "burnDown": "31 % spent, 52 % of the month over"},
    }
    server.put(kube.LOCAL_QUEUES, {"metadata": {"namespace": tenant, "name": tenant}, "status": local})
    budget = {
        "spent": "310.5",
        "left": "689.5",
        "burnDown": "31 % spent, 52 % of the month over",
        "money": {"spent": "776.25", "left": "1723.75", "currency": "EUR"},
    }
    server.put(kube.QUEUES, {"metadata": {"name": tenant}, "status": {"budget": budget} if tenant == "speech" else {}})
    stored = server.stored(kube.TRAINING_JOBS, "train-1", tenant)
    uid = (stored or {"metadata": {"uid": ""}})["metadata"]["uid"]
    event = {
        "type": "Normal",
        "reason": "Admitted",
        "message": "2 GPUs on gpu-node-4",
        "count": 1,
        "lastTimestamp": at(-152, now),
    }
    server.put(kube.EVENTS, {"metadata": {"namespace": tenant, "name": "one"}, "involvedObject": {"uid": uid}, **event})
    noted = {
        "labels": {"cotenant.dev/job-uid": uid, "cotenant.dev/attempt": "2"},
        "annotations": {"cotenant.dev/placement": '{"ranks": {"0": [], "1": []}}'},
    }
    server.put(
        kube.PODS, {"metadata": {"namespace": tenant, "name": "train-1-0", **noted}, "status": {"phase": "Running"}}
    )
