"""Data of a job from a store of the cluster, under real kubelets and with the network of jobs opened to it alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.live.e2e.tenancy import Document, Tenancy, product
from tests.live.waiting import timeout

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

STORE = '''
import http.server, time, urllib.parse
KEYS = {"set/a.bin": b"a" * 4_000_000, "set/deep/b.txt": b"bb"}
SECRET = "AWS4-HMAC-SHA256 Credential=reader/"

class S3(http.server.BaseHTTPRequestHandler):
    """A bucket, `data`: what obstore asks of S3. Large objects take ten seconds."""
    def answer(self, body, code=200, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            for at in range(0, len(body), 200_000):
                self.wfile.write(body[at:at + 200_000])
                time.sleep(0.5 if len(body) > 200_000 else 0)
    def do_GET(self):
        if not self.headers.get("Authorization", "").startswith(SECRET):
            return self.answer(b"<Error><Code>AccessDenied</Code></Error>", 403)
        path, _, query = self.path.partition("?")
        key = path.removeprefix("/data").strip("/")
        if not key:
            prefix = urllib.parse.parse_qs(query).get("prefix", [""])[0]
            rows = "".join(
                f"<Contents><Key>{k}</Key><LastModified>2026-11-24T00:00:00.000Z</LastModified>"
                f'<ETag>"{len(v)}"</ETag><Size>{len(v)}</Size></Contents>'
                for k, v in KEYS.items() if k.startswith(prefix)
            )
            listing = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
            return self.answer(listing.encode())
        if key not in KEYS:
            return self.answer(b"", 404)
        if self.command == "GET":
            print("gave", key, flush=True)
        body = KEYS[key]
        self.answer(body, ETag=f'"{len(body)}"', Last_Modified="Tue, 24 Nov 2026 00:00:00 GMT")
    do_HEAD = do_GET
    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer(("", 9000), S3).serve_forever()
'''
SHOW = (
    "import os, pathlib; folder = pathlib.Path(os.environ['COTENANT_DATA_DIR']); "
    "print('found', folder, [(f.name, f.stat().st_size) for f in sorted(folder.rglob('*')) if f.is_file()"
    " and f.name[0] != '.'])"
)
ADDRESS = "http://store.default.svc:9000"


def store() -> list[Document]:
    container = {
        "name": "store",
        "image": "ghcr.io/cotenant/tools",
        "command": ["python3", "-c", STORE],
        "readinessProbe": {"tcpSocket": {"port": 9000}, "periodSeconds": 1},
    }
    metadata = {"name": "store", "namespace": "default", "labels": {"app": "store"}}
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": "store"}, "ports": [{"port": 9000}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "datasets", "namespace": "team-a"},
            "stringData": {"id": "reader", "secret": "s"},
        },
    ]


def job(name: str, address: str, user: Document, **spec: Any) -> Document:
    secret = {"name": "AWS_SECRET_ACCESS_KEY", "valueFrom": {"secretKeyRef": {"name": "datasets", "key": "secret"}}}
    env = [{"name": "AWS_ENDPOINT_URL", "value": ADDRESS}, {"name": "AWS_ACCESS_KEY_ID", **user}, secret]
    return {
        "apiVersion": "cotenant.dev/v1beta1",
        "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {
            "queue": "team-a",
            "gpu": {"count": 1},
            "resources": {"cpu": "100m", "memory": "512Mi"},
            "runtime": {"command": ["python", "-c", SHOW], "env": env},
            "data": [{"from": address, "to": "/data/set", "sizeLimit": "64Mi"}],
            "retries": 3,
            **spec,
        },
    }


READER = {"valueFrom": {"secretKeyRef": {"name": "datasets", "key": "id"}}}


@pytest.fixture(scope="module")
def stored() -> Iterator[Tenancy]:
    from cotenant_local.cluster import spec

    nodes = spec.uniform(2, gpus=1, gpu_class="H100", gpu_memory="80Gi")
    with product("data", nodes, "operator.settings.egress_cidrs=0.0.0.0/0") as tenancy:
        tenancy.apply(*store())
        tenancy.cluster.kubectl("wait", "pod/store", "-n", "default", "--for=condition=Ready", timeout(120))
        yield tenancy
        tenancy.delete_all()


def test_data_is_in_both_pods_before_their_ranks_start_and_the_wait_is_told(stored: Tenancy) -> None:
    stored.apply(job("wide", "s3://data/set", READER, workers=2))

    def staging() -> Document | None:
        status: Document = stored.job("wide").get("status", {})
        return status if status.get("reason") == "StagingData" and "/s)" in status["message"] else None

    status = stored.wait(staging, seconds=200, what="the job says that it stages data")
    assert status["progress"]["state"] == "staging"
    assert status["progress"]["summary"].startswith("Staging data ")
    running = next(one for one in status["conditions"] if one["type"] == "Running")
    assert running["message"].endswith("; the GPUs are held meanwhile")
    status = stored.wait_phase("wide", "Succeeded", "Failed", seconds=200)["status"]
    logs = [stored.logs(f"wide-1-{node}") for node in range(2)]
    assert status["phase"] == "Succeeded", (status, logs)
    assert ["found /data/set [('a.bin', 4000000), ('b.txt', 2)]" in log for log in logs] == [True, True], logs
    gave = stored.logs("store", "default").split("\n")
    assert (gave.count("gave set/a.bin"), gave.count("gave set/deep/b.txt")) == (2, 2)
    told = status["progress"]["staging"]
    assert (told["fetchedBytes"], told["ofBytes"]) == (8_000_004, 8_000_004)
    assert told["seconds"] >= 9


@pytest.mark.parametrize(
    ("address", "user", "reason", "says"),
    [
        ("s3://data/none", READER, "DataNotFound", "there is nothing at s3://data/none; correct"),
        ("s3://data/set", {"value": "stranger"}, "DataDenied", "the store refuses to give s3://data/set"),
    ],
)
def test_what_the_tenant_has_to_mend_ends_the_job_at_its_first_attempt(
    stored: Tenancy, address: str, user: Document, reason: str, says: str
) -> None:
    stored.apply(job(reason.lower(), address, user))
    status = stored.wait_phase(reason.lower(), "Succeeded", "Failed")["status"]
    assert (status["phase"], status["reason"], status["attempts"]) == ("Failed", reason, 1), status
    assert says in status["message"]


def test_a_job_that_is_suspended_while_its_data_comes_leaves_at_once(stored: Tenancy) -> None:
    stored.apply(job("held", "s3://data/set", READER, gracePeriod="5m"))
    stored.wait(
        lambda: stored.job("held").get("status", {}).get("progress", {}).get("state") == "staging",
        what="its data comes",
    )
    began = time.monotonic()
    stored.apply(job("held", "s3://data/set", READER, gracePeriod="5m", suspend=True))
    stored.wait_phase("held", "Suspended", seconds=60)
    assert time.monotonic() - began < 60
    assert "found" not in stored.job("held")["status"].get("lastExit", {}).get("message", "")
