"""The decoders behind the door, each with how its hostile input is made and what must hold whatever comes in.

A decoder raises nothing but what it promises. What it lets through is printable text of bounded length and finite
numbers, which the operator can write and every JSON reader can read.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import math
import zlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson

from cotenant.contract import Contract, ContractError, Malformed, Progress, Termination
from cotenant.contract.decoding.bounded_json import Bounds, parse
from cotenant.contract.decoding.plain_text import plain_text
from cotenant.contract.decoding.reported_values import finite_numbers, plain_values
from cotenant.controller.informers.job_record import read_job
from cotenant.controller.informers.pods.pod_record import PodRecord, read_pod
from cotenant.controller.lifecycle.failure_classification import exit_status
from cotenant.controller.lifecycle.policies.retries import exit_message
from cotenant.controller.lifecycle.progress import final_progress, progress_update
from cotenant.controller.reports import progress_request
from cotenant_agent.enforcement.quota import grant_of
from cotenant_worker.messaging.codec import MessageError
from cotenant_worker.progress.http_endpoint import metrics_page
from cotenant_worker.progress.progress_board import ProgressBoard
from cotenant_worker.supervision import rank_error
from cotenant_worker.supervision.messages import MESSAGES
from cotenant_worker.supervision.rank_reports import RankReport
from tests.support.hostile import documents
from tests.support.hostile.mutations import Mutator

NOW: Final = 1767225600.0
TEXT_CHARS_MAX: Final = 5000


@dataclass(frozen=True)
class Door:
    """`make` draws an input, `check` decodes it and raises AssertionError where something does not hold."""

    name: str
    make: Callable[[Mutator], Any]
    check: Callable[[Any], None]


def assert_plain(value: Any) -> None:
    """Printable text of bounded length, finite numbers of 64 bits, and nothing that is neither."""
    match value:
        case None | bool():
            return
        case str():
            assert len(value) <= TEXT_CHARS_MAX, len(value)
            assert all(char == "\n" or char.isprintable() for char in value), ascii(value)
        case int():
            assert -(2**63) <= value < 2**63, value
        case float():
            assert math.isfinite(value), value
        case dict():
            for key, item in value.items():
                assert_plain(key)
                assert_plain(item)
        case list() | tuple():
            for item in value:
                assert_plain(item)
        case _:
            raise AssertionError(f"{type(value).__name__} in a decoded document")


def check_progress(data: bytes) -> None:
    found = Progress.from_json(data, ranks=4)
    if isinstance(found, Malformed):
        assert_plain(found.reason)
        return
    assert_plain(asdict(found))
    shown = progress_update(None, found, NOW)
    assert shown is not None
    orjson.dumps(shown.to_document())
    assert progress_update(shown, found, NOW + 1) is None
    assert Progress.from_json(found.to_json(), ranks=4) == found or len(found.warnings) > 16


def check_termination(text: str) -> None:
    found = Termination.from_json(text)
    if isinstance(found, Malformed):
        assert_plain(found.reason)
        return
    assert_plain(asdict(found))
    assert len(found.to_json().encode()) <= 4000
    ended = final_progress(None, [found], state="done", now=NOW)
    orjson.dumps([found.results, ended.to_document() if ended else None])


def check_contract(env: dict[str, str]) -> None:
    with contextlib.suppress(ContractError):
        found = Contract.from_environment(env)
        assert replace(Contract.from_environment(found.to_environment()), platform={}) == replace(found, platform={})
        assert found.node_rank >= 0
    pod = documents.pod_with(contract=env, message="")
    grant = grant_of(pod)
    if grant is not None:
        assert all(isinstance(mib, int) and mib >= 0 for mib in grant.quota_mib.values())
        assert_plain(list(grant.quota_mib))
    check_pod(pod)


def check_pod(document: dict[str, Any]) -> None:
    """Check a pod that the API server accepts: labels, annotations, variables and messages may be any text."""
    found = read_pod(document)
    assert isinstance(found, PodRecord)
    assert_plain(found.waiting)
    if found.exit is not None:
        assert_plain([found.exit.runtime_message, found.exit.code])
        orjson.dumps(exit_status(found).model_dump(mode="json"))
        assert_plain(exit_status(found).message)
        assert exit_message(exit_status(found))


def check_job(document: dict[str, Any]) -> None:
    found = read_job(document)
    assert (found.job is None) == (found.problem is not None)
    if found.problem is not None:
        assert_plain(found.problem)


def check_http(data: bytes) -> None:
    async def answer() -> bytes | Malformed | None:
        reader = asyncio.StreamReader(limit=progress_request.HEAD_BYTES_MAX)
        reader.feed_data(data)
        reader.feed_eof()
        return await progress_request.read_answer(reader, 1000)

    try:
        found = asyncio.run(answer())
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        return
    assert not isinstance(found, bytes) or len(found) <= 1000
    if isinstance(found, Malformed):
        assert_plain(found.reason)


def check_messages(lines: list[bytes]) -> None:
    """What ranks send to their launcher, and what its board then publishes."""
    board = ProgressBoard()
    for line in lines:
        with contextlib.suppress(MessageError):
            message = MESSAGES.decode(line)
            if isinstance(message, RankReport):
                board.record(message, NOW)
    shown = board.progress()
    assert_plain([shown.metrics, shown.warnings, board.results(), board.report_warnings()])
    assert isinstance(Progress.from_json(shown.to_json(), ranks=4), Progress)
    message_text = Termination(
        0, 1, 0, "Completed", results=board.results(), warnings=board.report_warnings()
    ).to_json()
    assert isinstance(Termination.from_json(message_text), Termination)
    metrics_page(board, {"job": "train"}).encode()


def check_error_file(data: bytes) -> None:
    found = rank_error.parse(data, 7)
    if found is not None:
        assert_plain(asdict(found))


def check_values(values: dict[Any, Any]) -> None:
    kept, notes = plain_values(values, "results")
    assert_plain([kept, notes])
    assert plain_values(kept, "results") == (kept, [])
    assert_plain(list(finite_numbers(values, "metrics")))


def check_text(text: str) -> None:
    for lines in (False, True):
        shown = plain_text(text, 100, lines=lines)
        assert len(shown) <= 100
        assert_plain(shown)
        assert plain_text(shown, 100, lines=lines) == shown
        assert shown.encode().decode() == shown


def check_json(text: str) -> None:
    bounds = Bounds(bytes_max=4000, depth_max=6, values_max=300)
    found = parse(text, bounds)
    if isinstance(found, Malformed):
        assert_plain(found.reason)
        return
    assert depth(found) <= bounds.depth_max
    assert repr(found) == repr(json.loads(text))


def depth(value: Any) -> int:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if items is None else 1 + max(map(depth, items), default=0)


def _contract_env(mutator: Mutator) -> dict[str, str]:
    text = mutator.json_of(json.loads(documents.CONTRACT.to_json()))
    match mutator.random.randrange(4):
        case 0:
            packed = base64.b64encode(zlib.compress(text.encode("utf-8", errors="surrogatepass"))).decode()
            text = "zlib:" + (packed if mutator.random.random() < 0.5 else mutator.spliced(packed))
        case 1:
            return {"COTENANT_CONTRACT": text[:200], "COTENANT_CONTRACT_2": text[200:]}
        case _:
            pass
    return {"COTENANT_CONTRACT": text}


def _pod(mutator: Mutator) -> dict[str, Any]:
    pod = documents.pod_with(
        contract=_contract_env(mutator), message=mutator.spliced(mutator.json_of(documents.TERMINATION))
    )
    condition = pod["status"]["conditions"][0]
    for place in (pod["metadata"]["labels"], pod["metadata"]["annotations"], condition):
        for key in set(place) - {"type", "status"}:
            if mutator.random.random() < 0.3:
                place.pop(key)
            elif mutator.random.random() < 0.3:
                place[key] = mutator.text()
    pod["status"]["message"] = mutator.text()
    pod["status"]["phase"] = mutator.random.choice(("Failed", "Succeeded", "Running", "Pending"))
    return pod


def _job(mutator: Mutator) -> dict[str, Any]:
    job = json.loads(json.dumps(documents.JOB))
    return {**job, mutator.random.choice(("spec", "status")): mutator.changed(job["spec"])}


def _values(mutator: Mutator) -> dict[Any, Any]:
    odd = (b"caf\xe9", (1,), {1}, object(), 10**5000, 1 + 2j, bytearray(b"x" * 5000))
    count = mutator.random.choice((1, 1, 2, 3, 3, 4, 100)) if mutator.random.random() < 0.3 else 2
    draw = mutator.random.random
    return {
        (mutator.text() if draw() < 0.8 else mutator.random.choice((1, None, b"k", (1, 2), 1.5))): (
            mutator.random.choice(odd) if draw() < 0.2 else mutator.value()
        )
        for _ in range(count)
    }


def _lines(mutator: Mutator) -> list[bytes]:
    chosen = mutator.random.choices(documents.MESSAGES, k=mutator.random.randrange(1, 5))
    return [mutator.bytes_of(mutator.json_of(message)) for message in chosen]


DOORS: Final = (
    Door("progress", lambda m: m.bytes_of(m.json_of(documents.PROGRESS)), check_progress),
    Door("termination", lambda m: m.json_of(documents.TERMINATION), check_termination),
    Door("contract", _contract_env, check_contract),
    Door("pod", _pod, check_pod),
    Door("job", _job, check_job),
    Door("http", lambda m: m.bytes_of(m.spliced(documents.HTTP.decode())), check_http),
    Door("messages", _lines, check_messages),
    Door("error-file", lambda m: m.bytes_of(m.json_of(m.random.choice(documents.ERROR_FILES))), check_error_file),
    Door("values", _values, check_values),
    Door("text", lambda m: m.text() + m.text(), check_text),
    Door("json", lambda m: m.json_of(m.value()), check_json),
)
