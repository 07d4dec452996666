"""Advice on the class and the workers of a job as a document of the group `query.cotenant.dev`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cotenant.api.resources.gpunodes import GPUNode
from cotenant.controller.query_api.documents import Document, answer, filled, listed
from cotenant.core.model.objects import JobKey
from cotenant.core.runtimes.templates import template_of
from cotenant.decision_log.efficiency import advice
from cotenant.decision_log.runs import RunRecord
from cotenant.decision_log.showback.prices import PriceList
from cotenant.decision_log.sizing.candidates import Candidate, ClassFacts, Sizing, sizing
from cotenant.decision_log.sizing.gpu_figures import figures_of


def advice_document(
    key: JobKey, runs: Sequence[RunRecord], classes: Sequence[ClassFacts], prices: PriceList, now: int
) -> Document:
    """Suggested resources for a job, from the runs of its template, newest first."""
    found = sizing(runs, classes, prices, now=now)
    namespace, _, name = key.partition("/")
    status: dict[str, Any] = {
        "template": template_of(key).partition("/")[2],
        "runs": found.runs,
        "leftOut": found.left_out,
        "candidates": [_candidate(one) for one in found.candidates],
        "byMoney": found.by_money,
        "currency": prices.currency if found.by_money else None,
        "quickest": _candidate(found.quickest) if found.quickest else None,
        "cheapest": _candidate(found.cheapest) if found.cheapest else None,
        "notes": list(found.notes),
        "advice": list(advice(runs[0])) if runs else [],
        "figures": _figures(found),
    }
    return answer("Advice", name, namespace, filled(status))


def advice_list(
    runs: Iterable[RunRecord], classes: Sequence[ClassFacts], prices: PriceList, now: int, most: int
) -> Document:
    """One suggestion for each template, under the name of its newest run."""
    of_template: dict[str, list[RunRecord]] = {}
    for run in runs:
        of_template.setdefault(template_of(f"{run.namespace}/{run.name}"), []).append(run)
    items = [
        advice_document(f"{found[0].namespace}/{found[0].name}", found, classes, prices, now)
        for found in list(of_template.values())[:most]
    ]
    return listed("Advice", items)


def classes_of(nodes: Mapping[str, GPUNode]) -> list[ClassFacts]:
    """Classes of the GPUs that are handed out."""
    memory: dict[str, int] = {}
    counts: dict[str, list[int]] = {}
    for node in nodes.values():
        here: dict[str, int] = {}
        for gpu in node.status.gpus:
            if gpu.healthy and not gpu.mig:
                here[gpu.gpu_class] = here.get(gpu.gpu_class, 0) + 1
                memory[gpu.gpu_class] = min(memory.get(gpu.gpu_class, gpu.memory_mib), gpu.memory_mib)
        for name, count in here.items():
            counts.setdefault(name, []).append(count)
    return [
        ClassFacts(gpu_class=name, memory_mib=memory[name], gpus=sum(of_nodes), on_one_node=max(of_nodes))
        for name, of_nodes in sorted(counts.items())
    ]


def _candidate(one: Candidate) -> Document:
    found: dict[str, Any] = {
        "gpuClass": one.shape.gpu_class,
        "workers": one.shape.workers,
        "gpu": one.shape.gpu,
        "seconds": list(one.seconds),
        "gpuSeconds": list(one.gpu_seconds),
        "basis": one.basis.value,
        "runs": one.runs or None,
        "costMicros": list(one.cost) if one.cost is not None else None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _figures(found: Sizing) -> Document:
    """Figures of the classes from which or for which something was estimated."""
    shown = {}
    for name in sorted({one.shape.gpu_class for one in found.candidates}):
        if (known := figures_of(name)) is not None:
            shown[name] = {
                "memoryGB": known.memory_gb, "bandwidthGBs": known.bandwidth, "tflops": known.tflops,
                "source": known.source,
            }  # fmt: skip
    return shown
