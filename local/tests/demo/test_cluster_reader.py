"""What the demo shows of a job that waits: its verdict and its events, as a person would read them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cotenant_local.demo import cluster_reader
from cotenant_local.demo.cluster_reader import ClusterReader

JOBS = "/apis/cotenant.dev/v1beta1/namespaces/red/trainingjobs/train"
EVENTS = "/api/v1/namespaces/red/events?fieldSelector=involvedObject.name%3Dtrain"


@pytest.mark.parametrize(
    ("status", "events", "lines"),
    [
        pytest.param(
            {"pending": {"reason": "QuotaExhausted", "message": "red has no GPU left"}},
            [{"reason": "QuotaExhausted", "message": "red has no GPU left"}],
            [
                "  reason: QuotaExhausted",
                "  message: red has no GPU left",
                "  event QuotaExhausted: red has no GPU left",
            ],
            id="it waits",
        ),
        pytest.param({"phase": "Running"}, [], [], id="it does not"),
        pytest.param({"pending": None}, [{}], ["  event None: None"], id="an event without words"),
    ],
)
def test_the_part_that_says_why_a_job_waits(
    status: dict[str, Any], events: list[dict[str, Any]], lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = {("GET", JOBS): {"status": status}, ("GET", EVENTS): {"items": events}}
    api = SimpleNamespace(call=lambda *request: documents[request])
    monkeypatch.setattr(cluster_reader, "Api", SimpleNamespace(from_kubeconfig=lambda _: api))
    shown = ClusterReader(Path("kubeconfig")).describe("red/train").splitlines()
    assert shown == ["$ kubectl -n red describe tj train   # the part that says why it waits", *lines]
