"""Time that ranks have to save and leave, of the grace period of their pods. Pure."""

from __future__ import annotations

from cotenant.contract import Contract


def leave_budget_s(contract: Contract) -> float:
    """Seconds that ranks have after a pod is asked to leave: the grace period without five seconds for the launcher,
    fewer of a short one.
    """
    return max(1.0, contract.grace_s - min(5.0, contract.grace_s / 4))
