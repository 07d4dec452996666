"""Parts of the operator's answers in words, alike on a terminal and on pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

LAST: Final = 1_000_000_000
"""The share of a queue of weight 0, in parts per million."""


def percent(ppm: int) -> str:
    """A share of a queue, from parts per million."""
    return f"{ppm / 10_000:.2f} %" if ppm < LAST else "after all others (weight 0)"


def fair_share(share: Mapping[str, Any]) -> Iterator[str]:
    """How the share of a queue is computed, line by line. The largest term decides."""
    for one in share["terms"]:
        yield f"borrows {one['borrowed']} of {one['capacity']} ({one['class'] or 'all GPUs'}): {percent(one['ppm'])}"
    most = max((one["ppm"] for one in share["terms"]), default=0)
    yield f"{percent(most)} + {percent(share['pastPpm'])} by past borrowing, / weight {share['weight']}"
    yield f"= {percent(share['ppm'])}: the lower share goes first"


def asked(run: Mapping[str, Any]) -> str:
    """What a run asked for, from its status: `2 × 0.4 H100`."""
    workers, gpu = run.get("workers") or 1, run.get("gpu", "")
    return f"{gpu if workers == 1 else f'{workers} × {gpu}'} {run.get('gpuClass', '')}".strip()
