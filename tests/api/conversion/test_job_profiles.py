"""Jobs filled in from their profiles."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cotenant.api.conversion.job_profiles import (
    NO_PROFILES,
    ProfileRefusedError,
    Profiles,
    UnknownProfileError,
    meaning_of,
    resolved,
    with_profile,
)
from cotenant.api.conversion.to_core import parse_cluster_profile, parse_job, parse_profile, to_job
from cotenant.api.resources.job_spec.profile import ProfileSpec
from cotenant.api.resources.trainingjob_status import ProfileStatus
from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.core.model.objects import Spread, TopologyMode

SHAPE: dict[str, Any] = {
    "workers": 4,
    "minWorkers": 2,
    "gpu": {"count": 1, "classes": ["H100"], "zones": ["a"]},
    "resources": {"cpu": 8, "memory": "32Gi"},
    "topology": {"level": "rack"},
    "spread": {"level": "node", "mode": "Required", "maxWorkers": 2},
    "runtime": {"image": "registry.example/team/train:1", "framework": "pytorch", "parameterServer": {"servers": 3}},
}


def job(**spec: Any) -> TrainingJob:
    runtime = {"entrypoint": "train:main"} | spec.pop("runtime", {})
    body = {"queue": "red", "profile": "standard", "runtime": runtime, **spec}
    kind = {"apiVersion": "cotenant.dev/v1beta1", "kind": "TrainingJob"}
    return parse_job({**kind, "metadata": {"name": "train", "namespace": "red"}, "spec": body})


def profile(name: str = "standard", *, cluster: bool = False, **spec: Any) -> Any:
    kind = {"apiVersion": "cotenant.dev/v1beta1", "kind": f"{'Cluster' if cluster else ''}TrainingProfile"}
    metadata = {"name": name, "generation": 3} | ({} if cluster else {"namespace": "red"})
    return (parse_cluster_profile if cluster else parse_profile)({**kind, "metadata": metadata, "spec": spec})


def meaning(**spec: Any) -> ProfileStatus:
    return ProfileStatus(name="standard", kind="TrainingProfile", generation=3, spec=ProfileSpec.model_validate(spec))


def refusal(found: TrainingJob, **spec: Any) -> list[str]:
    try:
        with_profile(found, meaning(**spec))
    except ProfileRefusedError as error:
        return [str(one) for one in error.problems]
    return []


def test_a_job_that_leaves_all_out_has_the_whole_profile() -> None:
    whole = with_profile(job(runtime={"strategy": "ParameterServer"}), meaning(**SHAPE))
    core = to_job(whole)
    assert (core.workers_min, core.workers_max, core.cpu_milli, core.memory_mib) == (2, 4, 8000, 32 << 10)
    assert (core.gpu.count, core.gpu.classes, core.gpu.zones) == (1, ("H100",), ("a",))
    assert core.topology is not None
    assert core.spread == Spread("node", TopologyMode.REQUIRED, 2)
    servers = whole.spec.runtime.servers
    assert (whole.spec.runtime.image, servers and servers.servers) == ("registry.example/team/train:1", 3)
    assert whole.status.profile == meaning(**SHAPE)


@pytest.mark.parametrize(
    ("given", "workers"),
    [({}, (2, 4)), ({"workers": 6}, (6, 6)), ({"minWorkers": 1}, (1, 4)), ({"workers": 6, "minWorkers": 3}, (3, 6))],
    ids=str,
)
def test_workers_and_the_least_of_them_are_of_one_author(given: dict[str, Any], workers: tuple[int, int]) -> None:
    core = to_job(with_profile(job(**given), meaning(**SHAPE)))
    assert (core.workers_min, core.workers_max) == workers


@pytest.mark.parametrize(
    ("gpu", "classes", "zones"),
    [
        ({"count": 2}, ("H100",), ("a",)),
        ({"memory": "16Gi", "classes": ["A100"]}, ("A100",), ("a",)),
        ({"memoryFraction": "0.5", "zones": ["b"]}, ("H100",), ("b",)),
    ],
    ids=str,
)
def test_an_amount_of_gpus_is_of_one_author(gpu: dict[str, Any], classes: Any, zones: Any) -> None:
    found = with_profile(job(gpu=gpu), meaning(**SHAPE)).spec.gpu
    assert (found.classes, found.zones) == (classes, zones)
    assert (found.count is not None) == ("count" in gpu)


def test_parameter_servers_are_for_jobs_that_have_them() -> None:
    assert with_profile(job(), meaning(**SHAPE)).spec.runtime.parameter_server is None


EVALUATOR: dict[str, Any] = {"resources": {"cpu": 2, "memory": "8Gi"}, "nodeSelector": {"pool": "cpu"}}


@pytest.mark.parametrize(
    ("given", "cpu", "nodes"),
    [
        ({}, 2000, {"pool": "cpu"}),
        ({"entrypoint": "train:evaluate", "finishWithin": "1m"}, 2000, {"pool": "cpu"}),
        ({"resources": {"cpu": 3}}, 3000, {}),
        ({"nodeSelector": {"pool": "small"}}, 1000, {"pool": "small"}),
        ({"tolerateGpuTaints": True}, 1000, {}),
    ],
    ids=["says nothing", "says what it runs", "says its resources", "says its nodes", "says which taints"],
)
def test_an_evaluator_is_of_one_author_but_for_its_program(
    given: dict[str, Any], cpu: int, nodes: dict[str, str]
) -> None:
    found = with_profile(job(evaluator=given), meaning(**SHAPE, evaluator=EVALUATOR)).spec.evaluator
    assert found is not None
    assert (found.asked.cpu, found.node_selector, found.entrypoint) == (cpu, nodes, given.get("entrypoint"))


def test_a_profile_gives_no_job_an_evaluator_that_did_not_ask_for_one() -> None:
    assert with_profile(job(), meaning(**SHAPE, evaluator=EVALUATOR)).spec.evaluator is None


LED: dict[str, Any] = {**SHAPE, "chief": {"resources": {"cpu": 16}}}


@pytest.mark.parametrize(
    ("given", "chief"),
    [
        ({}, (16_000, 32 << 10)),
        ({"chief": {}}, (16_000, 32 << 10)),
        ({"chief": {"resources": {"memory": "64Gi"}}}, (8_000, 64 << 10)),
        ({"resources": {"cpu": 20}}, (None, None)),
        ({"resources": {"cpu": 20}, "chief": {}}, (20_000, 4 << 10)),
    ],
    ids=[
        "says nothing", "names a chief", "says its resources", "says resources of every rank",
        "says resources and names a chief",
    ],
)  # fmt: skip
def test_the_resources_of_a_chief_and_of_the_other_ranks_are_of_one_author(
    given: dict[str, Any], chief: tuple[int | None, int | None]
) -> None:
    core = to_job(with_profile(job(**given), meaning(**LED)))
    assert (core.chief_cpu_milli, core.chief_memory_mib) == chief


@pytest.mark.parametrize(
    ("given", "allowed", "says"),
    [
        ({"resources": {"cpu": 9}}, {"resources": {"cpu": 8}}, ["spec.resources.cpu: 9 was given; {} 8"]),
        ({"resources": {"memory": "8Gi", "scratch": "20Gi"}}, {"resources": {"memory": "4Gi", "scratch": "10Gi"}},
         ["spec.resources.memory: 8 GiB was given; {} 4 GiB", "spec.resources.scratch: 20 GiB was given; {} 10 GiB"]),
        ({"chief": {"resources": {"cpu": "16.5"}}}, {"chief": {"cpu": 16}},
         ["spec.chief.resources.cpu: 16.5 was given; {} 16"]),
        ({"chief": {"resources": {"cpu": 12}}}, {"resources": {"cpu": 8}, "chief": {"cpu": 16}}, []),
        ({"chief": {"resources": {"cpu": 12}}}, {"resources": {"cpu": 8}},
         ["spec.chief.resources.cpu: 12 was given; {} 8"]),
        ({"chief": {}}, {"resources": {"cpu": 8}}, []),
    ],
    ids=["CPU", "memory and scratch", "of a chief", "of a chief apart", "of a chief as of all", "nothing given"],
)  # fmt: skip
def test_resources_above_a_bound_are_refused(given: dict[str, Any], allowed: dict[str, Any], says: list[str]) -> None:
    at = "the profile 'standard' allows at most"
    assert refusal(job(**given), gpu={"count": 1}, allowed=allowed) == [one.format(at) for one in says]


BOUNDS: dict[str, Any] = {
    "workers": {"max": 8},
    "gpus": {"min": 1, "max": 2},
    "classes": ["H100", "A100"],
    "zones": ["a"],
    "images": ["registry.example/team"],
}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({}, []),
        ({"workers": 8, "gpu": {"count": 2, "classes": ["A100"]}}, []),
        ({"workers": 9}, ["spec.workers: 9 was given; the profile 'standard' allows 1 to 8"]),
        ({"gpu": {"count": 3}}, ["spec.gpu.count: 3 was given; the profile 'standard' allows 1 to 2 GPUs per worker"]),
        (
            {"gpu": {"memoryFraction": "0.5"}},
            ["spec.gpu.count: a share of one was given; the profile 'standard' allows 1 to 2 GPUs per worker"],
        ),
        (
            {"gpu": {"count": 1, "classes": ["H100", "V100"], "zones": ["b"]}},
            [
                "spec.gpu.classes: V100 was given; the profile 'standard' allows H100, A100",
                "spec.gpu.zones: b was given; the profile 'standard' allows a",
            ],
        ),
        ({"runtime": {"image": "registry.example/team"}}, []),
        ({"runtime": {"image": "registry.example/team:2"}}, []),
        (
            {"runtime": {"image": "registry.example/team-evil/train"}},
            [
                "spec.runtime.image: registry.example/team-evil/train was given; the profile 'standard' allows images"
                " of registry.example/team"
            ],
        ),
        ({"minWorkers": 5}, ["spec.minWorkers: minWorkers must be at most workers: the job may run with from minWorkers"
                             " to workers of them"]),
    ],
    ids=str,
)  # fmt: skip
def test_what_breaks_a_bound_is_refused_with_field_given_and_allowed(spec: dict[str, Any], says: list[str]) -> None:
    assert refusal(job(**spec), **SHAPE, allowed=BOUNDS) == says


def test_what_the_profile_itself_supplies_is_bounded_too() -> None:
    assert refusal(job(), workers=9, gpu={"count": 1}, allowed={"workers": {"max": 8}}) == [
        "spec.workers: 9 was given; the profile 'standard' allows 1 to 8"
    ]
    assert refusal(job(gpu={"count": 16}), workers=2048) != []
    assert refusal(job(), workers=9, gpu={"count": 1}, allowed={"workers": {"max": 1}}) == [
        "spec.workers: 9 was given; the profile 'standard' allows 1"
    ]
    assert refusal(job(), workers=1, gpu={"count": 2}, allowed={"gpus": {"max": 1}}) == [
        "spec.gpu.count: 2 was given; the profile 'standard' allows 0 to 1 GPU per worker"
    ]


def test_a_profile_without_gpus_leaves_them_to_the_job() -> None:
    assert refusal(job(), workers=2) == [
        "spec.gpu: is required: the profile 'standard' names no GPUs; write for example `spec.gpu: {count: 1}`"
    ]


def test_who_names_no_class_may_have_those_that_are_allowed() -> None:
    found = with_profile(job(), meaning(gpu={"count": 1}, allowed={"classes": ["H100", "A100"]}))
    assert found.spec.gpu.classes == ("H100", "A100")


def test_the_namespaces_own_profile_comes_first() -> None:
    own, of_all = profile(workers=1), profile(cluster=True, workers=2)
    known = Profiles({"red/standard": own}, {"standard": of_all}, {})
    assert meaning_of(job(), known) == ProfileStatus(name="standard", kind=own.kind, generation=3, spec=own.spec)
    found = meaning_of(job(), Profiles({"blue/standard": own}, {"standard": of_all}, {}))
    assert found is not None
    assert found.kind == "ClusterTrainingProfile"


@pytest.mark.parametrize(
    ("known", "says"),
    [
        (NO_PROFILES, "; there are none at all: leave profile out, and say in gpu what a worker needs"),
        (Profiles({}, {"standrad": profile(cluster=True)}, {}), "; write `spec.profile: standrad`"),
        (Profiles({"red/big": profile(), "blue/own": profile()}, {"h": profile(cluster=True)}, {}),
         "; there are big, h"),
    ],
)  # fmt: skip
def test_a_profile_that_is_not_there_is_refused_with_those_that_are(known: Profiles, says: str) -> None:
    with pytest.raises(UnknownProfileError) as raised:
        meaning_of(job(), known)
    assert [str(one) for one in raised.value.problems] == [
        "spec.profile: there is no TrainingProfile 'standard' in namespace red, and no ClusterTrainingProfile of this"
        f" name{says}"
    ]


def test_one_that_cannot_be_read_hides_that_of_the_cluster() -> None:
    broken = {("trainingprofiles", "red/standard"): "spec.workers: must be at least 1, not 0"}
    with pytest.raises(UnknownProfileError, match=r"cannot be read: spec\.workers"):
        meaning_of(job(), Profiles({}, {"standard": profile(cluster=True)}, broken))


PARTS = st.fixed_dictionaries(
    {},
    optional={
        "workers": st.integers(1, 8),
        "gpu": st.sampled_from([{"count": 1}, {"memoryFraction": "0.5"}, {"count": 2, "classes": ["H100"]}]),
        "resources": st.sampled_from([{"cpu": 2}, {"memory": "8Gi"}]),
        "topology": st.sampled_from([{"level": "rack"}, {"level": "zone"}]),
        "spread": st.sampled_from([{"level": "node"}, {"level": "node", "mode": "Required"}]),
    },
)


@given(written=PARTS, supplied=PARTS)
def test_what_is_written_wins_and_filling_in_twice_changes_nothing(
    written: dict[str, Any], supplied: dict[str, Any]
) -> None:
    spec, shape = job(**written).spec, ProfileSpec.model_validate(supplied)
    whole = resolved(spec, shape)
    assert resolved(whole, shape) == whole
    parts = {"workers_given": "workers", "resources_given": "resources", "topology": "topology", "spread": "spread"}
    for name, both in parts.items():
        expected = getattr(spec, name) if both in written else getattr(shape, both)
        assert getattr(whole, name) == expected
    assert resolved(spec, ProfileSpec()) == spec
