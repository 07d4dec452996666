"""`spec.maxRuntime`: how long a job may run, over all its attempts. Pure."""

from __future__ import annotations

from cotenant.controller.lifecycle.attempt_usage import ran_for
from cotenant.controller.lifecycle.observation import Observation
from cotenant.controller.lifecycle.termination import Finish
from cotenant.controller.settings import Settings
from cotenant.core.model.lifecycle import LifecycleEvent, Phase


def deadline(o: Observation, settings: Settings) -> float | None:
    """When the job's time is over. Time between two attempts is not part of it."""
    if o.spec is None or o.spec.max_runtime is None or o.phase is not Phase.RUNNING:
        return None
    before = o.status.usage.run_seconds if o.status.usage else 0
    return o.now + o.spec.max_runtime - before - ran_for(o.status, o.now)


def ending(o: Observation, settings: Settings) -> Finish | None:
    over_at = deadline(o, settings)
    if over_at is None or o.now < over_at or o.spec is None:
        return None
    message = f"spec.maxRuntime ({o.spec.max_runtime} s) is over"
    return Finish(event=LifecycleEvent.DEADLINE, reason="MaxRuntimeExceeded", message=message)
