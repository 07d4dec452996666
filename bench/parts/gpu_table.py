"""The table of a run of `bench/gpu.py` in a page of the docs, between two marks. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

BEGIN: Final = "<!-- bench/gpu.py writes from here -->"
END: Final = "<!-- bench/gpu.py writes to here -->"


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a run."""

    gpu: str
    torch: str
    cuda: str
    driver: str


def written(page: str, machine: Machine, day: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The page with this run's table in place of what was between the marks; raises ValueError without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no place for the table: {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{table(machine, day, rows)}{END}{after}"


def table(machine: Machine, day: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    """A table of Markdown; `rows` as `GpuBench` keeps them: verdict and text by the name of what was measured."""
    driver = f", driver {machine.driver}" if machine.driver else ""
    lines = [f"{machine.gpu}{driver}, torch {machine.torch} (CUDA {machine.cuda}), {day}:", ""]
    lines += ["| on one GPU | | measured |", "|---|---|---|"]
    lines += [f"| {_cell(name)} | {_cell(row['verdict'])} | {_cell(row['text'])} |" for name, row in rows.items()]
    return "\n".join(lines) + "\n"


def _cell(text: object) -> str:
    """The text on one line, without characters that Markdown takes for a column or for HTML."""
    return re.sub(r"\s+", " ", str(text)).strip().replace("|", "\\|").replace("<", "&lt;")
