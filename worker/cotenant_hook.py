"""Loads the hook of a rank where PYTHONPATH does not: a run script has set it anew (`export PYTHONPATH=.`), begins with
an empty environment (`env -i`), or runs `python -I`.

If another folder comes first there, it may have a `sitecustomize` too, as that of opentelemetry-instrument: Python
imports one only.

The file cotenant_hook.pth imports it at the start of every Python of the worker image's environment. It is in no
wheel: where people install the package for themselves, nothing of it runs unasked.
"""

import importlib.util
import os
import sys

_RANK = "COTENANT_RESTART"
"""Every rank has it."""
_PREFIX = "COTENANT_"
_MOST_PARENTS = 16


def load() -> None:
    """Run the hook's `sitecustomize` by its path, unless PYTHONPATH surely brings it. This imports no package."""
    found = importlib.util.find_spec("cotenant_worker")
    home = os.path.join(next(iter(found.submodule_search_locations or ()), ""), "hook") if found else ""
    first = os.environ.get("PYTHONPATH", "").split(":")[0]
    if not home or (home == first and not sys.flags.ignore_environment):
        return
    spec = importlib.util.spec_from_file_location("cotenant_late_hook", os.path.join(home, "sitecustomize.py"))
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def rank_variables() -> "dict[str, str]":
    """Cotenant's variables of the rank that started this process, however many processes ago; empty outside a rank."""
    pid = os.getppid()
    for _ in range(_MOST_PARENTS):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                lines = os.fsdecode(file.read()).split("\0")
            with open(f"/proc/{pid}/stat") as file:
                pid = int(file.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            break
        found = dict(line.split("=", 1) for line in lines if line.startswith(_PREFIX) and "=" in line)
        if _RANK in found:
            return found
    return {}


if _RANK not in os.environ:
    os.environ.update(rank_variables())
if _RANK in os.environ:
    load()
