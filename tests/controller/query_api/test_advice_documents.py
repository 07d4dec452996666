"""Advice on class and workers, as it is asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from cotenant.api.conversion.to_core import parse_gpunode
from cotenant.controller.query_api.advice_documents import advice_document, advice_list, classes_of
from cotenant.controller.query_api.server import ROOT
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.prices import NO_PRICES, parse_prices
from cotenant.decision_log.sizing.candidates import ClassFacts
from tests.controller.query_api.test_server import served

RUN = RunRecord(
    namespace="red", name="train-7", uid="u", queue="red", outcome="Succeeded", workers=2, gpu="1", gpu_class="H100",
    run_seconds=1_000, attempts=1,
)  # fmt: skip
FOUR = ClassFacts(gpu_class="H100", memory_mib=81_920, gpus=4, on_one_node=2)


def gpu(index: int, gpu_class: str, **changes: Any) -> dict[str, Any]:
    return {"uuid": f"GPU-{index}", "index": index, "class": gpu_class, "memoryMiB": 80_000 + index} | changes


def test_classes_are_those_of_gpus_that_are_handed_out() -> None:
    def node(*gpus: dict[str, Any]) -> Any:
        return parse_gpunode(
            {
                "apiVersion": "cotenant.dev/v1beta1",
                "kind": "GPUNode",
                "metadata": {"name": "n", "uid": "g"},
                "status": {"gpus": list(gpus)},
            }
        )

    nodes = {
        "a": node(gpu(0, "H100"), gpu(1, "H100"), gpu(2, "H100", healthy=False)),
        "b": node(gpu(3, "H100"), gpu(4, "A100", mig=True), gpu(5, "T4")),
    }
    assert classes_of(nodes) == [
        ClassFacts(gpu_class="H100", memory_mib=80_000, gpus=3, on_one_node=2),
        ClassFacts(gpu_class="T4", memory_mib=80_005, gpus=1, on_one_node=1),
    ]


def test_the_document_has_what_is_measured_and_leaves_out_what_is_empty() -> None:
    status = advice_document("red/train-7", [RUN], [FOUR], NO_PRICES, 0)["status"]
    two = {
        "gpuClass": "H100", "workers": 2, "gpu": "1", "seconds": [1_000, 1_000], "gpuSeconds": [2_000, 2_000],
        "basis": "Measured", "runs": 1,
    }  # fmt: skip
    assert (status["template"], status["runs"], status["leftOut"]) == ("train", 1, 0)
    assert (status["quickest"], status["cheapest"]) == (two, two)
    assert [(one["workers"], one["basis"]) for one in status["candidates"]] == [
        (2, "Measured"),
        (4, "Guessed"),
        (1, "Guessed"),
    ]
    assert "currency" not in status
    prices = parse_prices({"currency": "EUR", "classes": [{"gpuClass": "*", "perGPUHour": "3.60"}]})
    priced = advice_document("red/train-7", [RUN], [FOUR], prices, 0)["status"]
    assert (priced["currency"], priced["cheapest"]["costMicros"]) == ("EUR", [2_000_000, 2_000_000])


def test_a_template_is_named_after_its_newest_run() -> None:
    runs = [RUN, replace(RUN, name="other", uid="v"), replace(RUN, name="train-6", uid="w")]
    items = advice_list(runs, [FOUR], NO_PRICES, 0, 9)["items"]
    assert [(one["metadata"]["name"], one["status"]["runs"]) for one in items] == [("train-7", 2), ("other", 1)]


async def test_it_is_answered_from_runs_that_are_recorded(tmp_path: Path) -> None:
    may = [f"alice {verb} query.cotenant.dev/advices red" for verb in ("get", "list")]
    async with served(tmp_path, *may) as served_:
        recorder = served_.replica.operator.decision_recorder
        await recorder.drain()
        recorder.archive.add([RUN])
        code, one = await served_.ask(f"{ROOT}/namespaces/red/advices/train-99")
        none, _ = await served_.ask(f"{ROOT}/namespaces/red/advices/nobody")
        _, listed = await served_.ask(f"{ROOT}/namespaces/red/advices")
        refused, _ = await served_.ask(f"{ROOT}/namespaces/blue/advices")
    assert (code, one["kind"], one["metadata"]["name"], one["status"]["runs"]) == (200, "Advice", "train-99", 1)
    assert [item["metadata"]["name"] for item in listed["items"]] == ["train-7"]
    assert (none, refused) == (404, 403)
