"""Claims and volumes: on which nodes a job can lie, as the kube-scheduler judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from cotenant.api.conversion.to_core import parse_job, to_job
from cotenant.api.conversion.volumes import (
    BoundVolume,
    claims_of,
    mounted_objects,
    to_claim,
    to_node_selector,
    to_volume,
    with_volumes,
)
from cotenant.api.validation.problems import DocumentError
from cotenant.core.model.objects import Job, Spread, Topology, TopologyMode
from tests.controller.builders import job_document
from tests.support.clusters import make_placement

ZONE, OLD_ZONE, HOST = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/hostname",
)
NODES: Mapping[str, Mapping[str, str]] = {
    "n1": {ZONE: "a", HOST: "n1", "disks": "2"},
    "n2": {ZONE: "b", HOST: "n2", "disks": "8"},
    "n3": {HOST: "n3"},
}


def volume(*terms: Mapping[str, Any], **labels: str) -> dict[str, Any]:
    affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": list(terms)}}} if terms else {}
    return {"metadata": {"name": "disk", "labels": labels}, "spec": affinity}


def term(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def both(*terms: Mapping[str, Any]) -> dict[str, Any]:
    return {"matchExpressions": [one for each in terms for one in each["matchExpressions"]]}


@pytest.mark.parametrize(
    ("document", "nodes", "place"),
    [
        pytest.param(volume(term(ZONE, "In", "b")), ["n2"], "in zone b", id="a zonal disk"),
        pytest.param(volume(term(HOST, "In", "n3")), ["n3"], "on node n3", id="a local disk"),
        pytest.param(
            volume(term("topology.ebs.csi.aws.com/zone", "In", "b")),
            [],
            "in zone b",
            id="a driver's own label of zones",
        ),
        pytest.param(
            volume(term(ZONE, "In", "a"), term(HOST, "In", "n3")), ["n1", "n3"], "in zone a", id="either term"
        ),
        pytest.param(
            volume(both(term(ZONE, "In", "a", "b"), term(HOST, "In", "n2"))),
            ["n2"],
            "in zone a or b",
            id="all of a term",
        ),
        pytest.param(volume({}), [], "", id="an empty term fits no node"),
        pytest.param(volume(term(ZONE, "NotIn", "a")), ["n2", "n3"], "", id="NotIn fits where there is no such label"),
        pytest.param(volume(term(ZONE, "Exists")), ["n1", "n2"], "", id="Exists"),
        pytest.param(volume(term(ZONE, "DoesNotExist")), ["n3"], "", id="DoesNotExist"),
        pytest.param(volume(term("disks", "Gt", "4")), ["n2"], "", id="Gt"),
        pytest.param(volume(term("disks", "Lt", "4")), ["n1"], "", id="Lt"),
        pytest.param(volume(term(ZONE, "Gt", "4")), [], "", id="Gt of what is no number"),
        pytest.param(
            volume({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}),
            ["n1"],
            "on node n1",
            id="a node by its name",
        ),
        pytest.param(
            volume(**{OLD_ZONE: "a__b"}),
            ["n1", "n2", "n3"],
            "in zone a or b",
            id="zones of an old volume, by its labels",
        ),
        pytest.param(volume(**{ZONE: "b"}), ["n2", "n3"], "in zone b", id="a zone by its label; a node without fits"),
        pytest.param(volume(), ["n1", "n2", "n3"], "", id="a volume without any place"),
    ],
)
def test_a_bound_volume_fits_the_nodes_that_the_kube_scheduler_would_accept(
    document: dict[str, Any], nodes: list[str], place: str
) -> None:
    read = to_volume(document)
    assert [name for name, labels in NODES.items() if read.fits(name, labels)] == nodes
    assert not place or read.place == place


def claim(*modes: str, bound_to: str = "") -> dict[str, Any]:
    return {"spec": {"accessModes": list(modes)} | ({"volumeName": bound_to} if bound_to else {})}


def placed(
    workers: int,
    data: dict[str, Any],
    *,
    read_only: bool = False,
    source: Mapping[str, Any] = MappingProxyType({}),
    selector: BoundVolume | None = None,
    **changes: Any,
) -> Job:
    """A job that mounts the claim `data`; volume `disk` is in zone b, and of this source."""
    mount = {
        "name": "data",
        "mountPath": "/data",
        "readOnly": read_only,
        "persistentVolumeClaim": {"claimName": "data"},
    }
    runtime = {"entrypoint": "train:main", "volumes": [mount]}
    document = parse_job(job_document(workers=workers, runtime=runtime))
    zonal = volume(term(ZONE, "In", "b"))
    disk = to_volume(zonal | {"spec": zonal["spec"] | source})
    return with_volumes(
        replace(to_job(document), **changes),
        document,
        {"data": to_claim(data)},
        {"disk": disk},
        fitting,
        selector=selector,
    )


def fitting(one: BoundVolume) -> frozenset[str]:
    return frozenset(name for name, labels in NODES.items() if one.fits(name, labels))


ONE_NODE = (
    "One node alone can mount claim data, which is ReadWriteOnce: use a ReadWriteMany claim, or ask for no more than"
    " one node has."
)
TOGETHER = Topology("node", TopologyMode.REQUIRED)
IN_B = "claim data is bound to volume disk in zone b"


@pytest.mark.parametrize(
    ("job", "nodes", "why", "topology", "one_node"),
    [
        pytest.param(placed(1, claim("ReadWriteOnce", bound_to="disk")), {"n2"}, IN_B, None, "", id="one worker"),
        pytest.param(placed(2, claim("ReadWriteMany", bound_to="disk")), {"n2"}, IN_B, None, "", id="a gang"),
        pytest.param(
            placed(2, claim("ReadWriteOnce", bound_to="disk")),
            {"n2"},
            IN_B,
            TOGETHER,
            ONE_NODE,
            id="a gang on one node",
        ),
        pytest.param(
            placed(2, claim("ReadWriteOnce", bound_to="disk"), source={"nfs": {"server": "files", "path": "/"}}),
            {"n2"},
            IN_B,
            None,
            "",
            id="a gang on a volume that is attached to no node",
        ),
        pytest.param(
            placed(2, claim("ReadWriteOnce", bound_to="disk"), source={"csi": {"driver": "efs.csi.aws.com"}}),
            {"n2"},
            IN_B,
            None,
            "",
            id="the same, by its driver",
        ),
        pytest.param(
            placed(2, claim("ReadWriteOnce", bound_to="disk"), source={"csi": {"driver": "ebs.csi.aws.com"}}),
            {"n2"},
            IN_B,
            TOGETHER,
            ONE_NODE,
            id="a driver that attaches its volumes",
        ),
        pytest.param(
            placed(2, claim("ReadWriteOnce"), topology=Topology("rack", TopologyMode.PREFERRED)),
            None,
            "",
            TOGETHER,
            ONE_NODE,
            id="a claim that is not bound is free, and yet for one node",
        ),
        pytest.param(
            placed(2, claim("ReadWriteOnce", "ReadOnlyMany", bound_to="disk"), read_only=True),
            {"n2"},
            IN_B,
            None,
            "",
            id="a gang that reads",
        ),
        pytest.param(
            placed(2, claim("ReadWriteOnce", bound_to="disk"), placement=make_placement(("n1", [[0]]), ("n2", [[0]]))),
            None,
            None,
            None,
            "",
            id="what the job holds already is not held against it",
        ),
    ],
)
def test_a_job_lies_where_its_claims_can_be_mounted(
    job: Job, nodes: set[str] | None, why: str | None, topology: Topology | None, one_node: str
) -> None:
    found = None if job.volumes is None else (job.volumes.nodes, job.volumes.why, job.volumes.one_node)
    assert (found, job.topology) == (None if why is None else (nodes, why, one_node), topology)


@pytest.mark.parametrize(
    ("annotations", "fit", "why"),
    [
        ({"openshift.io/node-selector": "disks=8"}, {"n2"}, "has the node selector disks=8"),
        (
            {"scheduler.alpha.kubernetes.io/node-selector": f"disks=2, {HOST}=n1"},
            {"n1"},
            f"has the node selector disks=2,{HOST}=n1",
        ),
        ({"openshift.io/node-selector": "team="}, set(), "has the node selector team="),
        ({"openshift.io/node-selector": ""}, None, ""),
        ({"openshift.io/node-selector": "no selector"}, None, ""),
        ({}, None, ""),
    ],
    ids=[
        "of a project",
        "of PodNodeSelector",
        "a label without a value",
        "emptied",
        "refused by the API server",
        "none",
    ],
)
def test_a_job_lies_where_the_selector_of_its_namespace_chooses(
    annotations: Mapping[str, str], fit: set[str] | None, why: str
) -> None:
    document = parse_job(job_document(workers=2))
    selector = to_node_selector({"metadata": {"name": "red", "annotations": annotations}})
    job = with_volumes(to_job(document), document, {}, {}, fitting, selector=selector)
    found = None if job.volumes is None else (set(job.volumes.nodes or ()), job.volumes.why)
    assert found == (None if fit is None else (fit, f"namespace red {why}"))


def test_a_selector_and_a_claim_restrict_together() -> None:
    selector = to_node_selector({"metadata": {"name": "red", "annotations": {"openshift.io/node-selector": "disks=2"}}})
    job = placed(1, claim("ReadWriteOnce", bound_to="disk"), selector=selector)
    assert job.volumes is not None
    assert job.volumes.nodes == frozenset()
    assert job.volumes.why == f"{IN_B} and namespace red has the node selector disks=2"


def test_a_claim_that_is_not_there_or_not_bound_leaves_a_single_worker_free() -> None:
    assert placed(1, claim("ReadWriteOnce")).volumes is None


@pytest.mark.parametrize(
    ("mode", "changes", "said"),
    [
        pytest.param(
            "ReadWriteOncePod",
            {},
            "spec.workers: is 2, and one pod alone can mount claim data, which is ReadWriteOncePod: write 1, or use a"
            " ReadWriteMany claim",
            id="ReadWriteOncePod",
        ),
        pytest.param(
            "ReadWriteOnce",
            {"spread": Spread("node", TopologyMode.REQUIRED)},
            "spec.spread: asks for several domains, and one node alone can mount claim data, which is ReadWriteOnce:"
            " leave spec.spread out, or use a ReadWriteMany claim",
            id="ReadWriteOnce and a spread",
        ),
    ],
)
def test_a_gang_that_can_never_share_its_claim_is_refused_with_what_to_write(
    mode: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(DocumentError) as refused:
        placed(2, claim(mode), **changes)
    assert [str(one) for one in refused.value.problems] == [said]


def test_an_evaluator_cannot_share_a_claim_of_one_pod() -> None:
    mount = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "data"}}
    document = job_document(workers=1, runtime={"entrypoint": "train:main", "volumes": [mount]}, evaluator={})
    job = parse_job(document)
    for mode, said in {
        "ReadWriteOncePod": ["spec.evaluator: is a second pod, and one pod alone can mount claim data, which is"
                             " ReadWriteOncePod: leave evaluator out, or use a ReadWriteMany claim"],
        "ReadWriteOnce": [],
    }.items():  # fmt: skip
        found: list[str] = []
        try:
            with_volumes(to_job(job), job, {"data": to_claim(claim(mode))}, {}, lambda _: frozenset())
        except DocumentError as refused:
            found = [str(one) for one in refused.problems]
        assert found == said


def test_claims_of_the_code_of_volumes_and_of_checkpoints_are_all_looked_at() -> None:
    mounts = [
        {"name": name, "mountPath": f"/{name}", "readOnly": reads, "persistentVolumeClaim": {"claimName": name}}
        for name, reads in (("data", True), ("shared", True))
    ]
    document = job_document(
        runtime={
            "entrypoint": "train:main",
            "code": {"persistentVolumeClaim": {"claimName": "code"}},
            "volumes": [*mounts, {"name": "files", "mountPath": "/files", "configMap": {"name": "files"}}],
        },
        checkpoint={"volume": {"persistentVolumeClaim": {"claimName": "shared"}}},
    )
    assert claims_of(parse_job(document).spec) == {"code": True, "data": True, "shared": False}


def test_what_a_job_mounts_is_named_once_in_its_own_order() -> None:
    claim = {"persistentVolumeClaim": {"claimName": "disk"}}
    spec = job_document(
        runtime={
            "command": ["python", "a.py"],
            "code": {"configMap": {"name": "code"}},
            "volumes": [
                {"name": "a", "mountPath": "/a", "secret": {"secretName": "key"}},
                {"name": "b", "mountPath": "/b", "emptyDir": {}},
                {"name": "c", "mountPath": "/c", **claim},
            ],
        },
        checkpoint={"volume": claim},
    )
    named = [("ConfigMap", "code"), ("Secret", "key"), ("PersistentVolumeClaim", "disk")]
    assert mounted_objects(parse_job(spec).spec) == named
    assert mounted_objects(parse_job(job_document()).spec) == []
