"""Time that ranks have to save and leave, of the grace period of their pods. Pure."""

from __future__ import annotations

from cotenant.contract import Contract


def leave_budget_s(contract: Contract) -> float:
    """Seconds that ranks have once a pod is asked to go: five are kept for the launcher, less of a short grace."""
    return max(1.0, contract.grace_s - min(5.0, contract.grace_s / 4))
