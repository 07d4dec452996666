"""The question before a change. The person answers it at a terminal with y."""

from __future__ import annotations

import sys

from cotenant.cli.errors import EXIT_USAGE, UserError


def agreed(question: str, instead: str = "--yes, or --dry-run") -> bool:
    """Whether the person agrees. Raises UserError if there is no terminal. `instead`: the flags that replace the
    question.
    """
    if not sys.stdin.isatty():
        raise UserError(f"this is no terminal, so nobody can answer: give {instead}", EXIT_USAGE)
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}
