"""An audit finds what holds GPUs for nothing and who starves, and every patch makes a document that is accepted."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from cotenant.api.conversion.to_core import parse_queue
from cotenant.cli.administrators import audit
from cotenant.cli.administrators.audit_findings import (
    AuditFinding,
    excess_guarantees,
    missing_queues,
    starved_borrowers,
    unused_guarantees,
)
from cotenant.cli.administrators.gpu_shares import GpuView, gpu_views
from cotenant.cli.administrators.gpus import CORDONED
from cotenant.cli.errors import EXIT_FORBIDDEN, UserError
from cotenant.cli.terminal.connection import Connection

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def queue(name: str, *quotas: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "cotenant.dev/v1beta1", "kind": "Queue", "metadata": {"name": name},
        "spec": {"namespaces": [name], "quotas": list(quotas)},
    }  # fmt: skip


def line(name: str, used: str, *, waiting: int = 0, parent: str | None = None, **quota: Any) -> dict[str, Any]:
    quotas = [{"class": "H100", "zone": None, "used": used, **quota}] if quota else []
    total = quota.get("guaranteed", "0")
    status = {"parent": parent, "guaranteed": total, "used": used, "waiting": waiting, "quotas": quotas}
    return {"metadata": {"name": name}, "status": status}


QUEUES = [
    queue("lab"),
    queue("archive", {"gpuClass": "H100", "guaranteed": 9, "limit": 12, "lendable": 4}),
    queue("vision", {"gpuClass": "H100", "guaranteed": 2, "limit": 3}),
    queue("night", {"gpuClass": "H100", "guaranteed": 1}),
]
TREE = [
    line("lab", "4", guaranteed="12", effective="12"),
    line("archive", "0", parent="lab", guaranteed="9", effective="9"),
    line("vision", "4", parent="lab", waiting=1, guaranteed="2", effective="2"),
    line("night", "0", parent="lab", guaranteed="1", effective="1"),
]


def waits(queue: str, since: str, **status: Any) -> dict[str, Any]:
    metadata = {"name": "w", "namespace": queue}
    return {
        "metadata": metadata,
        "status": {"standing": "Waiting", "queue": queue, "asks": "2 GPUs", "submittedAt": since, **status},
    }


class Cluster:
    def __init__(
        self,
        *,
        forbidden: bool = False,
        idle: dict[str, int] | None = None,
        simulated: bool = False,
        sessions: tuple[str, ...] = (),
        heartbeat: str = "2026-01-01T11:59:58Z",
    ) -> None:
        self.heartbeat = heartbeat
        self.forbidden, self.idle, self.simulated, self.sessions = forbidden, idle or {}, simulated, sessions

    def read(self, path: str) -> dict[str, Any]:
        if path.endswith("/queues"):
            return {"items": QUEUES}
        if path == CORDONED:
            return {"items": []}
        if "/trainingjobs/" in path:
            kind = "Session" if path.endswith(self.sessions) else "Sweep"
            owner = {"kind": kind, "name": "nb", "controller": True}
            return {"metadata": {"ownerReferences": [owner]}, "spec": {"queue": "vision"}}
        gpus = [
            {"uuid": f"GPU-{i}", "index": i, "used": {"utilizationPercent": use}} for i, use in enumerate((0, 0, 80))
        ]
        held = [("red", "sleeper", ["GPU-0", "GPU-1"]), ("red", "mixed", ["GPU-1", "GPU-2"])]
        holders = [
            {"namespace": namespace, "job": job, "gpus": [{"uuid": uuid, "computeMilli": 500} for uuid in uuids]}
            for namespace, job, uuids in held
        ]
        status = {"gpus": gpus, "holders": holders, "simulated": self.simulated, "heartbeat": self.heartbeat}
        return {"items": [{"metadata": {"name": "n1"}, "status": status}]}

    def get(self, path: str) -> dict[str, Any]:
        match path.rsplit("/", maxsplit=1)[-1]:
            case "queuetrees":
                return {"items": TREE}
            case "explanations":
                return {"items": [
                    waits("vision", "2026-01-01T02:00:00Z"), waits("night", "2026-01-01T11:00:00Z"),
                    waits("archive", "2025-12-01T00:00:00Z", needsChange=True),
                ]}  # fmt: skip
            case "runs" if self.forbidden:
                raise UserError("User cannot list runs", EXIT_FORBIDDEN)
            case "runs":
                return {"items": [{"status": {"queue": "night"}}]}
            case name if name in self.idle:
                return {"status": {"use": {"idlePercent": self.idle[name]}}}
        raise UserError("not found", 3)


def found(cluster: Cluster) -> tuple[list[AuditFinding], list[str]]:
    return audit.findings(cast("Connection", cluster), 6 * 3600, NOW)


def test_it_finds_idle_holders_unused_guarantees_and_who_starves() -> None:
    findings, missing = found(Cluster(idle={"sleeper": 97}))
    assert [(one.kind, one.subject, one.gpus) for one in findings] == [
        ("IdleHolder", "red/sleeper", 1.0),
        ("UnusedGuarantee", "archive", 9.0),
        ("StarvedBorrower", "vision", 2.0),
    ]
    assert missing == []
    assert "in 97 % of all looks at it" in findings[0].message


def test_a_queue_that_is_not_there_and_that_jobs_use_is_a_finding() -> None:
    def job(name: str, queue: str, standing: str) -> dict[str, Any]:
        status = {"queue": queue, "standing": standing}
        return {"metadata": {"name": name, "namespace": "red"}, "status": status}

    jobs = [job("sleeper", "old", "Admitted"), job("b", "old", "Waiting"), job("c", "vision", "Waiting")]
    gpus = gpu_views(Cluster().read("gpunodes")["items"])
    (one,) = missing_queues(jobs, {"vision"}, gpus)
    assert (one.kind, one.subject, one.gpus, one.patch) == (
        "MissingQueue", "old", 1.0, "kubectl cotenant ps -A --queue old",
    )  # fmt: skip
    assert one.message.startswith("is not there, and 2 of its jobs are: 1 hold 1 GPU, all of which count as borrowed,")
    assert list(missing_queues(jobs, {"vision", "old"}, ())) == []


def test_an_idle_session_is_ended_by_its_own_time_and_not_by_that_of_its_job() -> None:
    first, *_ = found(Cluster(sessions=("red/trainingjobs/sleeper",)))[0]
    assert first.message.endswith("a shorter idleTimeout of its queue's sessions would suspend it")
    assert first.patch.startswith("kubectl patch queue vision ")
    merged = json.loads(first.patch.partition("-p ")[2].strip("'"))
    vision = next(one for one in QUEUES if one["metadata"]["name"] == "vision")
    parsed = parse_queue(vision | {"spec": vision["spec"] | merged["spec"]})
    assert parsed.spec.sessions is not None


def test_a_job_that_computes_most_of_the_time_is_no_idle_holder() -> None:
    assert [one.kind for one in found(Cluster(idle={"sleeper": 20}))[0]] == ["UnusedGuarantee", "StarvedBorrower"]


def test_simulated_gpus_make_no_idle_holders_and_are_named() -> None:
    findings, missing = found(Cluster(simulated=True))
    assert [one.kind for one in findings] == ["UnusedGuarantee", "StarvedBorrower"]
    assert missing == ["use of 3 GPUs: simulated, so nothing computes on them"]


def test_gpus_of_a_node_whose_agent_is_silent_make_no_idle_holders() -> None:
    findings, _ = found(Cluster(heartbeat="2026-01-01T11:50:00Z"))
    assert [one.kind for one in findings] == ["UnusedGuarantee", "StarvedBorrower"]


def test_without_the_records_it_says_what_it_did_not_look_at() -> None:
    findings, missing = found(Cluster(forbidden=True))
    assert ("UnusedGuarantee", "night") in {(one.kind, one.subject) for one in findings}
    assert missing == ["runs that are over: User cannot list runs"]


@pytest.mark.parametrize(
    ("name", "quotas"),
    [("archive", [(0, 12_000, None)]), ("vision", [(4_000, 4_000, None)])],
)
def test_every_patch_of_a_queue_makes_one_that_is_accepted(name: str, quotas: list[tuple[int, int, None]]) -> None:
    (patch,) = [one.patch for one in found(Cluster())[0] if one.subject == name]
    merged = json.loads(patch.partition("-p ")[2].strip("'"))
    document = next(one for one in QUEUES if one["metadata"]["name"] == name)
    parsed = parse_queue(document | {"spec": document["spec"] | merged["spec"]})
    assert [(one.guaranteed, one.limit, one.lendable) for one in parsed.spec.quotas] == quotas


def test_it_is_read_by_kind_with_the_command_below() -> None:
    printed = list(audit.lines(*found(Cluster(idle={"sleeper": 97}))))
    assert printed[0] == "Hold GPUs and compute nothing (1 GPU)"
    assert printed[2].startswith("    kubectl patch trainingjob sleeper -n red --type=merge -p '{")
    assert list(audit.lines([], [])) == ["Nothing found."]


GPUS = [
    GpuView(
        node="n1", index=index, uuid=f"GPU-{index}", gpu_class="H100", memory_mib=1, healthy=index > 0, health="",
        node_state="Ready", utilization=None, used_mib=None, shares=(),
    )
    for index in range(8)
]  # fmt: skip


def test_guarantees_beyond_what_there_is_are_named_by_class_and_zone_with_what_counts() -> None:
    queues = [
        queue(
            "wide", {"gpuClass": "H100", "zone": "z1", "guaranteed": 8, "lendable": 6, "limit": 12}, {"guaranteed": 2}
        ),
        queue("small", {"gpuClass": "H100", "guaranteed": 4}),
    ]
    status = {
        "quotas": [
            {"class": "H100", "zone": "z1", "guaranteed": "8", "effective": "4.667"},
            {"class": None, "zone": None, "guaranteed": "2", "effective": "2"},
        ]
    }
    fits = {"quotas": [{"class": "H100", "zone": None, "guaranteed": "4", "effective": "4"}]}
    tree = [{"metadata": {"name": "wide"}, "status": status}, {"metadata": {"name": "small"}, "status": fits}]
    (found,) = excess_guarantees(tree, {one["metadata"]["name"]: one for one in queues}, GPUS)
    assert (found.kind, found.subject, round(found.gpus, 3)) == ("ExcessGuarantee", "wide", 3.333)
    assert found.message == (
        "is guaranteed more than there is beside what others are guaranteed: 8 GPUs of H100 in z1 (8 listed, 1 of"
        " them take no work now), of which it can have 4.667"
    )
    merged = json.loads(found.patch.partition("-p ")[2].strip("'"))
    parsed = parse_queue(queues[0] | {"spec": queues[0]["spec"] | merged["spec"]})
    assert [(one.guaranteed, one.lendable, one.limit) for one in parsed.spec.quotas] == [
        (4_667, 4_667, 12_000), (2_000, None, None)
    ]  # fmt: skip


def lent(used: str = "0") -> list[dict[str, Any]]:
    """The tree of a queue that a QuotaRequest has given a line of H100 and three GPUs more of A100."""
    quotas = [
        {"class": "A100", "zone": None, "guaranteed": "4", "effective": "2", "used": used},
        {"class": "H100", "zone": None, "guaranteed": "2", "effective": "0", "used": used},
    ]
    status = {"parent": None, "guaranteed": "6", "used": used, "waiting": 0, "quotas": quotas}
    return [{"metadata": {"name": "lent"}, "status": status}]


LENT = {"lent": queue("lent", {"gpuClass": "A100", "guaranteed": 1})}
GIVEN = {"lent": queue("lent", {"gpuClass": "A100", "limit": 1})}


def test_a_job_that_ran_until_a_moment_ago_has_not_waited_since_it_was_submitted() -> None:
    job = waits("lent", "2026-01-01T02:00:00Z")
    job["status"]["requeuedAt"] = "2026-01-01T11:59:00Z"
    assert list(starved_borrowers(lent("4"), LENT, [job], NOW, 6 * 3600)) == []


def test_what_is_guaranteed_for_some_time_beyond_what_there_is_leaves_the_queue_as_it_is() -> None:
    (found,) = excess_guarantees(lent(), LENT, GPUS)
    assert found.message.endswith("A QuotaRequest or a Booking guarantees some of it and ends by itself")
    assert found.patch == "kubectl get quotarequests,bookings -A"


def test_of_what_is_guaranteed_for_some_time_nothing_counts_as_unused() -> None:
    assert [one.gpus for one in unused_guarantees(lent(), LENT, ())] == [1.0]
    assert list(unused_guarantees(lent(), GIVEN, ())) == []


def test_a_queue_that_starves_beside_a_line_of_a_request_is_given_more_in_its_own() -> None:
    tree = lent("4")
    tree[0]["status"]["quotas"].reverse()
    found = list(starved_borrowers(tree, LENT, [waits("lent", "2026-01-01T02:00:00Z")], NOW, 6 * 3600))
    assert ['{"gpuClass": "A100", "guaranteed": 2}' in one.patch for one in found] == [True]
