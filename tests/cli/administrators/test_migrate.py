"""Objects of older versions are written as they are, at a bounded rate; then the old version is forgotten."""

from __future__ import annotations

import time
from typing import Any

import pytest

from cotenant.cli import main
from cotenant.cli.administrators import migrate
from cotenant.cli.administrators.migrate import CRDS, WriteRate
from cotenant.cli.errors import EXIT_NOT_FOUND, EXIT_UNAVAILABLE, UserError

OURS = "/apis/cotenant.dev/v1beta1"
OLD_AND_NEW = ["v1alpha1", "v1beta1"]
IN_FORCE, BEFORE = "uYluRQFA8dc=", "hash of v1alpha1"
JOBS = ["a/1", "a/2", "b/1"]
WRITTEN = [f"{OURS}/namespaces/{one.replace('/', '/trainingjobs/')}" for one in JOBS]


def crd(plural: str, stored: list[str], storage: str = "v1beta1", group: str = "cotenant.dev") -> dict[str, Any]:
    versions = [{"name": name, "storage": name == storage} for name in ("v1beta1", "v1alpha1")]
    kind = {"trainingjobs": "TrainingJob", "queues": "Queue"}.get(plural, plural)
    spec = {"group": group, "names": {"plural": plural, "kind": kind}, "versions": versions}
    return {"spec": spec, "metadata": {"resourceVersion": "7"}, "status": {"storedVersions": stored}}


class Cluster:
    """Two jobs to a page; `failing` has what a write of this path says, once for each entry."""

    namespace = "default"

    def __init__(self, *crds: dict[str, Any]) -> None:
        self.crds = list(crds)
        self.patches: list[tuple[str, Any]] = []
        self.failing: dict[str, list[UserError]] = {}
        self.stored_as = [IN_FORCE]
        """What discovery says of trainingjobs, answer by answer; the last one stays."""

    def read(self, path: str) -> dict[str, Any]:
        if path == CRDS:
            return {"items": self.crds}
        if path == OURS:
            stored_as = self.stored_as.pop(0) if len(self.stored_as) > 1 else self.stored_as[0]
            resources: list[dict[str, Any]] = [{"name": "queues"}, {"name": "trainingjobs/status"}]
            return {"resources": [*resources, {"name": "trainingjobs", "storageVersionHash": stored_as}]}
        if "queues" in path:
            return {"items": [{"metadata": {"name": "red"}}], "metadata": {}}
        assert path.startswith(f"{OURS}/trainingjobs?limit=500")
        pairs = [one.split("/") for one in JOBS]
        objects = [{"metadata": {"namespace": namespace, "name": name}} for namespace, name in pairs]
        if path.endswith("&continue=rest%3D"):
            return {"items": objects[2:], "metadata": {}}
        return {"items": objects[:2], "metadata": {"continue": "rest="}}

    def patch(self, path: str, body: Any) -> None:
        if self.failing.get(path):
            raise self.failing[path].pop(0)
        self.patches.append((path, body))


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster(crd("trainingjobs", OLD_AND_NEW), crd("others", OLD_AND_NEW, group="example.com"))
    monkeypatch.setattr(migrate, "connect", lambda _: made)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return made


def noted(plural: str) -> tuple[str, Any]:
    status = {"metadata": {"resourceVersion": "7"}, "status": {"storedVersions": ["v1beta1"]}}
    return f"{CRDS}/{plural}.cotenant.dev/status", status


def test_every_object_is_written_as_it_is_and_then_the_old_version_is_forgotten(cluster: Cluster) -> None:
    assert main.main(["migrate", "--yes", "--rate", "1000"]) == 0
    assert cluster.patches == [*((path, {}) for path in WRITTEN), noted("trainingjobs")]


def test_nothing_is_written_before_the_api_server_stores_in_the_new_version(cluster: Cluster) -> None:
    cluster.stored_as = [BEFORE, BEFORE, IN_FORCE]
    assert main.main(["migrate", "--yes", "--rate", "1000"]) == 0
    assert (len(cluster.patches), cluster.stored_as) == (4, [IN_FORCE])


def test_an_api_server_that_keeps_to_the_old_version_is_told_of(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.stored_as = [BEFORE]
    assert main.main(["migrate", "--yes"]) == EXIT_UNAVAILABLE
    assert "does not store trainingjobs as v1beta1 yet; nothing was written" in capsys.readouterr().err
    assert cluster.patches == []


def test_where_all_is_stored_in_the_new_version_nothing_is_read_or_written(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.crds = [crd("trainingjobs", ["v1beta1"])]
    assert main.main(["migrate"]) == 0
    assert (cluster.patches, "nothing to do" in capsys.readouterr().out) == ([], True)


def test_a_dry_run_counts_and_writes_nothing(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["migrate", "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert (cluster.patches, said) == ([], "trainingjobs: 3 objects may be stored as v1alpha1 or v1beta1\n")


@pytest.mark.parametrize(
    ("crds", "said"),
    [
        ([crd("queues", ["v1alpha1"], "v1alpha1")], "queues are not stored as v1beta1; first: kubectl apply"),
        ([], "Cotenant's CRDs are not there; first: kubectl apply"),
    ],
    ids=["older", "none"],
)
def test_definitions_of_an_older_release_are_brought_up_to_date_first(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], crds: list[Any], said: str
) -> None:
    cluster.crds = crds
    assert main.main(["migrate", "--yes"]) == 1
    assert said in capsys.readouterr().err
    assert cluster.patches == []


def test_an_object_that_cannot_be_written_keeps_the_old_version_of_its_kind_alone(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.crds.append(crd("queues", OLD_AND_NEW))
    cluster.failing = {WRITTEN[1]: [UserError("spec.workers: must be at most 10000")]}
    assert main.main(["migrate", "--yes"]) == 1
    assert [one for one in cluster.patches if one[1]] == [noted("queues")]
    assert (f"{OURS}/queues/red", {}) in cluster.patches
    assert "1 of 3 objects cannot be written" in (said := capsys.readouterr().out)
    assert "  a/2: spec.workers: must be at most 10000" in said


def test_an_object_that_is_gone_needs_no_write_and_an_overloaded_server_is_asked_again(cluster: Cluster) -> None:
    busy = UserError("too many requests", EXIT_UNAVAILABLE)
    cluster.failing = {WRITTEN[0]: [UserError("not found", EXIT_NOT_FOUND)], WRITTEN[1]: [busy, busy]}
    assert main.main(["migrate", "--yes"]) == 0
    assert cluster.patches == [*((path, {}) for path in WRITTEN[1:]), noted("trainingjobs")]


def test_who_is_interrupted_has_forgotten_nothing_and_begins_anew(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.failing = {WRITTEN[2]: [UserError("not reached", EXIT_UNAVAILABLE)] * migrate.TRIES}
    assert main.main(["migrate", "--yes"]) == EXIT_UNAVAILABLE
    assert cluster.patches == [(path, {}) for path in WRITTEN[:2]]
    assert "what was written stays so, run it again" in capsys.readouterr().err
    assert main.main(["migrate", "--yes"]) == 0
    assert cluster.patches[2:] == [*((path, {}) for path in WRITTEN), noted("trainingjobs")]


def test_writes_are_spread_over_time_and_time_that_was_not_used_is_not_made_up_for() -> None:
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    rate = WriteRate(4, lambda: now[0], sleep)
    rate.wait()
    rate.wait()
    now[0] += 10
    rate.wait()
    rate.wait()
    assert slept == [0.25, 0.25]


def test_a_rate_of_nothing_is_refused(cluster: Cluster) -> None:
    assert main.main(["migrate", "--yes", "--rate", "0"]) == 1
    assert cluster.patches == []
