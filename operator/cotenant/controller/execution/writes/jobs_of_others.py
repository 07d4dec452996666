"""Texts about other jobs in the document of a job, for readers who may not see all namespaces.

The query API redacts by the rights of each caller. A status and its Events have one text for all readers, so they name
jobs of their own namespace alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from cotenant.core.model.plan import Verdict
from cotenant.query.redaction import redacted


def said_in(namespace: str, text: str, namespaces: Collection[str]) -> str:
    """The text for readers of this namespace. `namespaces`: all namespaces of the cluster."""
    return redacted(text, namespaces, lambda one: one == namespace) if "/" in text else text


def verdict_in(namespace: str, verdict: Verdict, namespaces: Collection[str]) -> Verdict:
    """The verdict with such texts; the same object if nothing of it names others."""

    def said(text: str) -> str:
        return said_in(namespace, text, namespaces)

    evidence = tuple((name, said(one) if isinstance(one, str) else one) for name, one in verdict.evidence)
    told = replace(
        verdict,
        message=said(verdict.message),
        evidence=evidence,
        ahead=said(verdict.ahead),
        starts_by_basis=said(verdict.starts_by_basis),
        would_start_if=said(verdict.would_start_if),
    )
    return verdict if told == verdict else told
