"""The simulated inventory: what the document may say, and that GPUs keep their names."""

import json

import pytest

from cotenant_agent.gpus.readings import Gpu, GpuSample, GpuSourceError, HealthSigns
from cotenant_agent.gpus.simulated import SimulatedSource, SimulatedSpec, gpu_uuid, parse
from cotenant_agent.main import rate_limited


@pytest.mark.parametrize(
    ("document", "want"),
    [
        ({"class": "H100", "memory": "80Gi", "count": 2}, SimulatedSpec("H100", 81920, 2)),
        ({"class": "T4", "memory": "512Mi"}, SimulatedSpec("T4", 512, 1)),
        ({"class": "B200", "memory": "1Ti", "count": 0}, SimulatedSpec("B200", 1024 * 1024, 0)),
        (
            {"class": "H100", "memory": "80Gi", "count": 2, "unhealthy": [1]},
            SimulatedSpec("H100", 81920, 2, frozenset({1})),
        ),
        (
            {"class": "H100", "memory": "80Gi", "count": 4, "nvlink": [[0, 1], [2]]},
            SimulatedSpec("H100", 81920, 4, nvlink=(frozenset({0, 1}), frozenset({2}))),
        ),
    ],
)
def test_a_document_is_a_class_an_amount_and_a_number(document: object, want: SimulatedSpec) -> None:
    assert parse(json.dumps(document), "here") == want


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ('{"class": "H100", "memory": "80Gi", "gpus": 2}', "unknown key 'gpus'"),
        ('{"memory": "80Gi"}', "class must be a name such as H100, not None"),
        ('{"class": "", "memory": "80Gi"}', "class must be a name"),
        ('{"class": "H100"}', "memory must be an amount such as 80Gi"),
        ('{"class": "H100", "memory": "80"}', "memory must be"),
        ('{"class": "H100", "memory": "0Gi"}', "memory must be"),
        ('{"class": "H100", "memory": 80}', "memory must be"),
        ('{"class": "H100", "memory": "80Gi", "count": -1}', "count must be a number from 0 to 64, not -1"),
        ('{"class": "H100", "memory": "80Gi", "count": true}', "count must be"),
        ('{"class": "H100", "memory": "80Gi", "count": "2"}', "count must be"),
        ('{"class": "H100", "memory": "80Gi", "count": 65}', "count must be"),
        (
            '{"class": "H100", "memory": "80Gi", "count": 2, "unhealthy": [2]}',
            "unhealthy must be a list of indexes below 2",
        ),
        *(
            (json.dumps({"class": "H100", "memory": "80Gi", "count": 2, "nvlink": domains}), "nvlink must be lists")
            for domains in (2, [0, 1], [[0, 2]], [[0], [0, 1]], [["0"]], [[True]])
        ),
    ],
)
def test_a_refusal_names_the_place_and_the_key(text: str, says: str) -> None:
    with pytest.raises(GpuSourceError) as refused:
        parse(text, "annotation x of Node n1")
    assert str(refused.value).startswith("annotation x of Node n1: ")
    assert says in str(refused.value)


def test_gpus_keep_their_uuids_and_no_two_nodes_share_one() -> None:
    assert gpu_uuid("n1", 0) == gpu_uuid("n1", 0)
    assert len({gpu_uuid(node, index) for node in ("n1", "n2") for index in range(8)}) == 16


def test_the_source_follows_its_document() -> None:
    document = ['{"class": "H100", "memory": "80Gi", "count": 2}']
    source = SimulatedSource("n1", lambda: document[0], "file")
    first, second = gpu_uuid("n1", 0), gpu_uuid("n1", 1)
    assert source.inventory().simulated
    assert source.inventory().gpus == (
        Gpu(uuid=first, index=0, gpu_class="H100", memory_mib=81920, product="Simulated H100", peers=(second,)),
        Gpu(uuid=second, index=1, gpu_class="H100", memory_mib=81920, product="Simulated H100", peers=(first,)),
    )
    document[0] = '{"class": "H100", "memory": "80Gi", "count": 1, "unhealthy": [0]}'
    assert [gpu.uuid for gpu in source.inventory().gpus] == [first]
    assert source.samples() == (GpuSample(uuid=first, used_mib=0, utilization_percent=0, signs=HealthSigns(lost=True)),)


def test_nvlink_joins_what_the_document_says_and_all_where_it_says_nothing() -> None:
    document = ['{"class": "H100", "memory": "80Gi", "count": 3}']
    source = SimulatedSource("n1", lambda: document[0], "file")
    uuids = [gpu_uuid("n1", index) for index in range(3)]
    assert [set(gpu.peers) for gpu in source.inventory().gpus] == [set(uuids) - {own} for own in uuids]
    document[0] = '{"class": "H100", "memory": "80Gi", "count": 3, "nvlink": [[0, 2]]}'
    assert [gpu.peers for gpu in source.inventory().gpus] == [(uuids[2],), (), (uuids[0],)]


def test_an_inventory_that_was_read_once_stays_while_the_api_server_is_away() -> None:
    answers = iter(["two GPUs", None, "three GPUs"])

    def read() -> str:
        answer = next(answers)
        if answer is None:
            raise GpuSourceError("the Node cannot be read")
        return answer

    source = rate_limited(0.0, read)
    assert [source(), source(), source()] == ["two GPUs", "two GPUs", "three GPUs"]


def test_an_inventory_that_was_never_read_is_missing() -> None:
    def read() -> str:
        raise GpuSourceError("the Node cannot be read")

    with pytest.raises(GpuSourceError):
        rate_limited(0.0, read)()
