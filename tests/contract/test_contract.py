"""What operator and pod tell each other: each document is read as it was written, and what is none is refused."""

import base64
import json
import re
import zlib
from dataclasses import asdict, replace
from typing import Any

import pytest

from cotenant import contract
from cotenant.contract import (
    CheckpointSpec,
    Contract,
    ContractError,
    DataSource,
    EvaluatorSpec,
    GpuGrant,
    Mode,
    PodGrant,
    Progress,
    RankGrant,
    Role,
    Termination,
)
from tests.support.well_formed import well_formed

GPU = GpuGrant("GPU-1", 40960, 500, whole=False, simulated=True)
CONTRACT = Contract(
    job="train",
    namespace="team-a",
    uid="u",
    attempt=2,
    node_rank=1,
    pods=(
        PodGrant("train-0.train", (RankGrant(0, (GPU,)), RankGrant(1, (replace(GPU, uuid="GPU-2"),)))),
        PodGrant("train-1.train", (RankGrant(2, (GpuGrant("GPU-3", 81920, 1000, whole=True),)),)),
    ),
    mode="command",
    command=("python", "train.py"),
    checkpoint=CheckpointSpec("/checkpoints/train", 600),
    servers=("train-2.train",),
    platform={"preflight": False},
)


@pytest.mark.parametrize(
    "document",
    [
        CONTRACT,
        replace(CONTRACT, servers=(), checkpoint=None, command=(), mode="entrypoint", entrypoint="train:main"),
        replace(CONTRACT, command=("x" * 250_000,)),
    ],
    ids=["whole", "bare", "long"],
)
def test_a_contract_is_read_as_it_was_written(document: Contract) -> None:
    assert Contract.from_json(document.to_json()) == document
    assert Contract.from_environment(document.to_environment()) == document


def test_data_to_be_fetched_goes_with_the_contract_and_an_image_from_before_reads_a_job_without() -> None:
    data = (DataSource("s3://bucket/images", "/data", 1 << 40), DataSource("https://host/a.tar", "/a"))
    document = replace(CONTRACT, data=data)
    assert Contract.from_json(document.to_json()) == document
    assert "data" not in json.loads(CONTRACT.to_json())


def test_an_image_from_before_parameter_servers_reads_a_job_without_them() -> None:
    assert "servers" not in json.loads(replace(CONTRACT, servers=()).to_json())


def test_a_contract_is_plain_until_it_is_longer_than_one_variable_and_then_packed_in_parts() -> None:
    bare = replace(CONTRACT, command=("",))
    fits = replace(CONTRACT, command=("x" * (contract.PART - len(bare.to_json())),))
    longer = replace(CONTRACT, command=(fits.command[0] + "x",))
    assert fits.to_environment() == {"COTENANT_CONTRACT": fits.to_json()}
    (packed,) = longer.to_environment().values()
    assert packed.startswith("zlib:")
    noise = replace(CONTRACT, command=("".join(chr(0x4E00 + n * 7919 % 20000) for n in range(60_000)),))
    parts = noise.to_environment()
    assert list(parts) == ["COTENANT_CONTRACT", "COTENANT_CONTRACT_2"][: len(parts)]
    assert all(len(part) <= contract.PART for part in parts.values())
    assert Contract.from_environment(parts) == noise


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "COTENANT_CONTRACT is not JSON: "),
        ("{", "COTENANT_CONTRACT is not JSON: "),
        ("[]", "COTENANT_CONTRACT must be an object with version 1"),
        ('{"version": 2}', "COTENANT_CONTRACT must be an object with version 1"),
        ('{"version": 1}', "COTENANT_CONTRACT: 'pods'"),
        ('{"version": 1, "pods": [{"host": "a"}]}', "COTENANT_CONTRACT: 'ranks'"),
        ('{"version": 1, "pods": [], "colour": 1}', "COTENANT_CONTRACT: .*unexpected keyword argument 'colour'"),
        ("zlib:?", "COTENANT_CONTRACT cannot be unpacked: "),
        ("zlib:AAAA", "COTENANT_CONTRACT cannot be unpacked: "),
    ],
)
def test_what_is_no_contract_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=f"^{message}"):
        Contract.from_environment({"COTENANT_CONTRACT": text} if text else {})


def changed(path: str, value: Any) -> str:
    """The contract with one value changed, by a dotted path."""
    document = json.loads(CONTRACT.to_json())
    *parents, last = path.split(".")
    place = document
    for part in parents:
        place = place[int(part) if isinstance(place, list) else part]
    place[last] = value
    return json.dumps(document)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("node_rank", "x", "'node_rank' must be a whole number from 0 to 9007199254740991, not \"x\""),
        ("node_rank", -1, "'node_rank' must be a whole number from 0 to 9007199254740991, not -1"),
        ("attempt", 1.5, "'attempt' must be a whole number from 0 to 9007199254740991, not 1.5"),
        ("pods", {"a": 1}, "'pods' must be a list of objects, not an object"),
        ("pods", [None], "pods[0] is not an object"),
        ("pods.0.ranks", 7, "'ranks' of pods[0] must be a list of objects, not 7"),
        ("pods.0.ranks.1.gpus.0.memory_mib", "1", "'memory_mib' of pods[0].ranks[1].gpus[0] must be a whole number"),
        ("pods.0.ranks.1.gpus.0.memory_mib", None, "'memory_mib' of pods[0].ranks[1].gpus[0] must be a whole number"),
        ("pods.0.ranks.1.gpus.0.uuid", "\x1b[2J", "'uuid' of pods[0].ranks[1].gpus[0] must be the UUID of a GPU"),
        ("pods.0.ranks.1.gpus.0.whole", 1, "'whole' of pods[0].ranks[1].gpus[0] must be true or false, not 1"),
        ("pods.0.ranks.1.gpus.0.more", 1, "unexpected keyword argument 'more' of pods[0].ranks[1].gpus[0]"),
        ("command", "python train.py", "'command' must be a list of texts, not \"python train.py\""),
        ("command", [1], "'command' must be a list of texts, not a list"),
        ("checkpoint", "/c", "checkpoint is not an object"),
        ("checkpoint.interval_s", 1e300, "'interval_s' of checkpoint must be a whole number"),
        ("platform", [], "'platform' must be an object, not a list"),
        ("servers", {}, "'servers' must be a list of texts, not an object"),
        ("job", None, "'job' must be a text, not null"),
        ("job", "caf\udce9", "'job' must be a text, not \"caf\\udce9\""),
        ("command", ["caf\udce9"], "'command' must be a list of texts, not a list"),
    ],
    ids=ascii,
)
def test_a_contract_with_one_wrong_value_is_refused_with_its_place(path: str, value: Any, message: str) -> None:
    with pytest.raises(ContractError, match=f"^COTENANT_CONTRACT: {re.escape(message)}"):
        Contract.from_json(changed(path, value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 50_000, "nests more than 16 deep"),
        ('{"version": ' + "1" * 5000 + "}", "holds a number of more than 32 digits"),
        (
            "zlib:" + base64.b64encode(zlib.compress(bytes(64 << 20))).decode(),
            "cannot be unpacked: unpacks to more than",
        ),
        ("zlib:" + base64.b64encode(zlib.compress(b"\xff")).decode(), "cannot be unpacked: 'utf-8' codec can't"),
        ("zlib:\u00e9", "cannot be unpacked: string argument should contain only ASCII"),
    ],
    ids=["deep", "digits", "bomb", "bytes", "letters"],
)
def test_a_contract_that_costs_too_much_is_refused(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=f"^COTENANT_CONTRACT {message}"):
        Contract.from_environment({"COTENANT_CONTRACT": text})


def test_the_contract_of_the_largest_job_is_read() -> None:
    pods = tuple(
        PodGrant(f"train-{n}.train", tuple(RankGrant(8 * n + k, (GPU,)) for k in range(8))) for n in range(1250)
    )
    document = replace(CONTRACT, pods=pods, servers=())
    assert Contract.from_environment(document.to_environment()) == document


@pytest.mark.parametrize(("node_rank", "server"), [(0, None), (1, None), (2, 0)])
def test_pods_behind_those_of_the_ranks_are_parameter_servers(node_rank: int, server: int | None) -> None:
    assert replace(CONTRACT, node_rank=node_rank).server == server
    assert CONTRACT.world_size == 3


EVALUATOR = EvaluatorSpec("train-1-e0.train", "command", ("python", "evaluate.py"))


@pytest.mark.parametrize(
    ("node_rank", "role"),
    [(0, Role.WORKER), (1, Role.WORKER), (2, Role.PARAMETER_SERVER), (3, Role.EVALUATOR)],
)
def test_a_pods_role_follows_from_its_node_rank(node_rank: int, role: Role) -> None:
    document = replace(CONTRACT, evaluator=EVALUATOR, node_rank=node_rank)
    assert document.role is role
    assert Contract.from_json(document.to_json()) == document


def test_a_node_rank_behind_all_pods_has_no_role() -> None:
    with pytest.raises(IndexError, match="node_rank: 3 is not one of the pods"):
        assert replace(CONTRACT, node_rank=3).role


def test_an_image_from_before_evaluators_reads_a_job_without_one() -> None:
    assert '"evaluator"' not in CONTRACT.to_json()


@pytest.mark.parametrize(
    ("mode", "ranks", "needed"),
    [("command", 1, False), ("command", 2, True), ("entrypoint", 1, False), ("rayTrain", 1, True)],
)
def test_ray_is_for_peers_and_for_its_own_drivers(mode: Mode, ranks: int, needed: bool) -> None:
    assert contract.needs_ray(mode, ranks) is needed


@pytest.mark.parametrize(
    ("step", "of", "rate", "left"),
    [(30, 100, 2.0, 35.0), (120, 100, 2.0, 0.0), (30, 0, 2.0, None), (30, 100, 0.0, None)],
)
def test_time_is_left_where_the_end_and_the_rate_are_known(step: int, of: int, rate: float, left: float | None) -> None:
    assert Progress("training", step=step, of=of, rate=rate).remaining_s == left


def test_progress_is_read_as_it_was_written_whoever_wrote_it() -> None:
    progress = Progress("training", step=3, warnings=("slow",), slow_ranks={"1": (20.0, 5.0)}, metrics={"loss": 0.5})
    assert Progress.from_json(progress.to_json()) == progress
    assert Progress.from_json('{"state": "saving", "of_a_later_version": 1}') == Progress("saving")


def ended(**changes: Any) -> Termination:
    return Termination(**{"node_rank": 0, "attempt": 1, "code": 1, "reason": "UserError", **changes})


def test_a_termination_is_read_as_it_was_written_whoever_wrote_it() -> None:
    whole = ended(rank=3, pod=1, signal=9, results={"loss": 0.5}, tail=("a", "b"))
    assert Termination.from_json(whole.to_json()) == whole
    later = json.loads(ended().to_json()) | {"of_a_later_version": 1}
    assert Termination.from_json(json.dumps(later)) == ended()


def test_a_termination_that_is_too_long_loses_its_oldest_lines_first_and_then_the_end_of_its_message() -> None:
    lines = tuple(f"{number:04d} {'x' * 90}" for number in range(60))
    read = well_formed(Termination.from_json(ended(message="short", tail=lines).to_json()))
    assert (read.message, read.tail) == ("short", lines[-len(read.tail) :])
    assert 3800 < len(read.to_json()) <= 4000
    text = ended(message="ü" * 4000, tail=lines).to_json()
    read = well_formed(Termination.from_json(text))
    assert len(text) <= 4000
    assert (read.tail, set(read.message)) == ((), {"ü"})


_LATER = ("servers", "data", "evaluator")


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"evaluator": EVALUATOR},
        {"servers": ()},
        {"platform": {"a": {"b": 1, "pods": [], "z": 2}, "pods": [], "x": ',"pods":[],'}},
        {"strategy": "ParameterServer", "uid": ',"pods":[],', "servers": (',"pods":[],',), "entrypoint": '\\",'},
        {"pods": ()},
        {"pods": (PodGrant("h", (RankGrant(0, (GpuGrant("AMD-1", 0, 1000, True, resource="amd.com/gpu"),)),)),)},
    ],
    ids=[
        "whole",
        "with an evaluator",
        "without servers",
        "pods in the platform",
        "pods in texts",
        "without pods",
        "other devices",
    ],
)
def test_the_text_is_the_json_of_all_fields_in_their_order(change: dict[str, Any]) -> None:
    document = replace(CONTRACT, **change)
    fields = {key: value for key, value in asdict(document).items() if key not in _LATER or value}
    for gpu in (gpu for pod in fields["pods"] for rank in pod["ranks"] for gpu in rank["gpus"]):
        if not gpu["resource"]:
            del gpu["resource"]
    for node_rank in (0, 1, 0):
        text = replace(document, node_rank=node_rank).to_json()
        assert text == json.dumps(fields | {"node_rank": node_rank}, sort_keys=True, separators=(",", ":"))


def kubelet(text: str, known: dict[str, str]) -> str:
    """What the kubelet makes of a variable's value: `$$` is one dollar, `$(NAME)` a variable that came before."""
    return re.sub(r"\$(?:(\$)|\(([^)]*)\))", lambda found: found[1] or known.get(found[2], f"$({found[2]})"), text)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(("bash", "-c", "mkdir /tmp/run.$$"), id="the shell's own pid"),
        pytest.param(("make", "SHELL_PID=$$$$"), id="a Makefile's dollars"),
        pytest.param(("bash", "-c", "train --host $(hostname)"), id="a command that is also a variable"),
        pytest.param(("bash", "-c", "login $(KEY)"), id="a variable with a quote in it"),
    ],
)
def test_a_command_with_dollars_arrives_as_it_was_typed(command: tuple[str, ...]) -> None:
    env = {"hostname": "from env", "KEY": 'a"b'}
    sent = replace(CONTRACT, command=command).to_environment()
    env |= {name: kubelet(text, env) for name, text in sent.items()}
    assert Contract.from_environment(env).command == command
