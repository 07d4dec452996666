"""JAX's missing arguments, and Ray Train's reports as ours."""

from __future__ import annotations

import contextlib
import os
import time

from .beats import pulse
from .first_words import begin


def after_jax_distributed(module):
    """`initialize()` without arguments; and no search for a cluster, which in a pod would be the API server's word."""
    import inspect

    original = module.initialize
    signature = inspect.signature(original)

    def initialize(*args, **kwargs):
        given = signature.bind_partial(*args, **kwargs).arguments
        env = os.environ
        if "JAX_PROCESS_ID" in env and "JAX_NUM_PROCESSES" in env:
            ours = {
                "num_processes": int(env["JAX_NUM_PROCESSES"]),
                "process_id": int(env["JAX_PROCESS_ID"]),
                "cluster_detection_method": "deactivate",
            }
            where = env.get("JAX_COORDINATOR_ADDRESS")
            if given.get("coordinator_address") in (None, where):
                ours["coordinator_address"] = ours["coordinator_bind_address"] = where
            for name, value in ours.items():
                if name in signature.parameters and given.get(name) is None:
                    given[name] = value
        return original(**given)

    initialize.__doc__ = original.__doc__
    module.initialize = initialize


def after_ray_train(module):
    """Ray Train's reports are reports."""
    original = module.report
    count = [0]

    def report(metrics, *args, **kwargs):
        count[0] += 1
        with contextlib.suppress(Exception):
            if count[0] == 1:
                begin()
            numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, (int, float))}
            step = int(numbers.get("step", count[0]))
            pulse.report({"op": "report", "step": step, "metrics": numbers, "at": time.time()})
            if kwargs.get("checkpoint") is not None:
                pulse.send({"op": "saved", "step": step})
        return original(metrics, *args, **kwargs)

    report.__doc__ = original.__doc__
    module.report = report
