"""Programs that say odd or hostile things to the operator: their own job's loss, and nobody else's.

Inputs: jobs whose launcher was replaced by a program of the tenant's, and an honest one with odd results. Outputs: the
status of each, what a neighbour gets, and whether the operator and the agent have gone on.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.live.e2e.tenancy import SYSTEM, Tenancy, training_job

pytestmark = pytest.mark.cluster

HOSTILE_LAUNCHER = r"""
import gzip, http.server, itertools, json, os, signal, sys

def json_of(**fields):
    return 200, {}, json.dumps({"state": "training", **fields}).encode()

BOMB = gzip.compress(bytes(64 << 20))
ANSWERS = itertools.cycle([
    (200, {}, b"[" * 1000),
    (200, {}, b"[" * 10_000_000),
    (200, {}, b'{"step": ' + b"9" * 5000 + b"}"),
    (200, {"Content-Encoding": "gzip"}, BOMB),
    (302, {"Location": "http://127.0.0.1:8080/metrics"}, b""),
    json_of(slow_ranks={"0": [1, 2, 3]}, step=1.5, updated_at=1e18),
    json_of(state="\ud800", warnings=["\x1b[2J\u202e"], metrics={"\x1b": 1e308}),
    json_of(of=2**70, rate=float("nan"), observed_gpus={"0": "x"}, memory_peak_mib={"0": "y"}),
    json_of(step=1, of=9_007_199_254_740_991, rate=1e-300, last_checkpoint_at=1e300),
])

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        status, headers, body = next(ANSWERS) if self.path == "/progress" else (200, {}, b"ok")
        if self.path == "/progress":
            self.server.asked += 1
            sys.stderr.write(f"asked {self.server.asked}\n")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

def leave(*_):
    with open("/dev/termination-log", "w") as file:
        file.write("[" * 4090)
    os._exit(3)

signal.signal(signal.SIGTERM, leave)
server = http.server.ThreadingHTTPServer((os.environ["POD_IP"], 8099), Handler)
server.asked = 0
server.timeout = 1
while server.asked < 10:
    server.handle_request()
leave()
"""
ODD_RESULTS = """
import os
from cotenant_worker import report, results
report(step=3, of=3, metrics={"loss": 0.5, "name": "resnet", "big": 10**400})
nested = []
for _ in range(100_000):
    nested = [nested]
results({
    "accuracy": 0.75, "file": os.fsdecode(b"caf\\xe9.bin"), "raw": b"caf\\xe9", "seed": 2**70, "nan": float("nan"),
    "deep": nested, "screen": "\\x1b[2J\\u202e", **{f"extra {n}": n for n in range(5)},
})
"""


def restarts(tenancy: Tenancy) -> dict[str, int]:
    """Restarts of every container of the product."""
    pods: list[dict[str, Any]] = tenancy.get("pods", "-n", SYSTEM)["items"]
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]  # not those of an earlier rollout
    found = {pod["metadata"]["name"]: pod["status"].get("containerStatuses", []) for pod in staying}
    return {name: sum(one["restartCount"] for one in containers) for name, containers in found.items()}


def code_of(name: str, **files: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team-a"}, "data": files}


def test_a_launcher_of_the_tenants_own_hurts_only_its_job(tenancy: Tenancy) -> None:
    before = restarts(tenancy)
    tenancy.apply(
        code_of("hostile", **{"cotenant_worker.py": HOSTILE_LAUNCHER}),
        training_job(
            "hostile",
            retries=0,
            runtime={
                "code": {"configMap": {"name": "hostile"}},
                "env": [{"name": "PYTHONPATH", "value": "/workspace"}],
            },
        ),
    )
    tenancy.wait_phase("hostile", "Running")

    def warned() -> bool:
        progress = tenancy.job("hostile")["status"].get("progress", {})
        return any("cannot be read" in warning for warning in progress.get("warnings", []))

    tenancy.wait(warned, what="its job says what is wrong with its answers")
    tenancy.apply(training_job("honest", "team-b"))
    tenancy.wait_phase("honest", "Succeeded", namespace="team-b")
    job = tenancy.wait_phase("hostile", "Failed", seconds=240)
    assert job["status"]["lastExit"]["code"] == 3
    assert job["status"]["lastExit"]["message"].endswith("its termination message nests more than 4 deep")
    text = json.dumps(job["status"], ensure_ascii=False)
    assert text.isprintable()
    assert len(text) < 20_000
    assert restarts(tenancy) == before


def test_an_honest_program_with_odd_results_succeeds_with_what_can_be_kept(tenancy: Tenancy) -> None:
    before = restarts(tenancy)
    tenancy.apply(training_job("odd", command=["python", "-c", ODD_RESULTS]))
    status = tenancy.wait_phase("odd", "Succeeded", "Failed")["status"]
    assert (status["phase"], status["progress"]["step"]) == ("Succeeded", 3)
    assert status["results"] == {
        "loss": 0.5,
        "accuracy": 0.75,
        "file": "caf\\udce9.bin",
        "raw": "caf\\xe9",
        "seed": "1180591620717411303424",
        "nan": "nan",
        "screen": "\\x1b[2J\\u202e",
        **{f"extra {n}": n for n in range(5)},
    }
    warnings = " ".join(status["progress"]["warnings"])
    for key in ("results.file", "results.seed", "results.nan", "results.deep", "results.screen", "metrics.name"):
        assert key in warnings, warnings
    assert restarts(tenancy) == before
