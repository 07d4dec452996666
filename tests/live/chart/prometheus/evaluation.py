"""Prometheus itself, built once from its Go module: what its scrape parser, its engine and its rule checks say."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cotenant_local.host.patience import stretched

if TYPE_CHECKING:
    from cotenant_local.host.progress import Progress

SOURCE = Path(__file__).parent


@dataclass(frozen=True)
class Target:
    """A pod that is scraped, with the expositions that it gave, oldest first and half a minute apart."""

    labels: Mapping[str, str]
    scrapes: Sequence[str]
    honorLabels: bool = False  # noqa: N815 - the key of the document


@dataclass(frozen=True)
class Answer:
    error: str
    type: str
    selectors: list[dict[str, Any]]
    """`metric` and the names of its labels, for each."""
    series: list[dict[str, str]]
    """Labels of what came out."""


def evaluate(targets: Sequence[Target], expressions: Sequence[str], rules: str = "") -> tuple[list[Answer], list[str]]:
    """An answer for each expression, and what is wrong with the rule file."""
    asked = {"targets": [asdict(one) for one in targets], "expressions": list(expressions), "rules": rules}
    text = json.dumps(asked)
    done = subprocess.run([program()], input=text, capture_output=True, text=True, check=False, timeout=stretched(120))
    if done.returncode:
        raise RuntimeError(done.stderr)
    found = json.loads(done.stdout)
    return [Answer(**one) for one in found["expressions"]], found["rules"]


@cache
def program() -> Path:
    from cotenant_local.programs import build_cache

    sources = b"\0".join((SOURCE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    return build_cache.once("prometheus", hashlib.sha256(sources).hexdigest()[:16], _make) / "prometheus"


def _make(folder: Path, progress: Progress) -> None:
    from cotenant_local.host import folders
    from cotenant_local.programs import go_toolchain

    toolchain = go_toolchain.find(folders.cache(), progress.log)
    progress.log("building Prometheus' engine (once)")
    command: list[str | Path] = [
        toolchain.program,
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags=-s -w",
        "-o",
        folder,
        ".",
    ]
    subprocess.run(command, cwd=SOURCE, env=toolchain.environment, check=True)
