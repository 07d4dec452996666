"""Patches of JAX (missing arguments, ranks that do not meet, the wait at the end) and Ray Train (its reports)."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time

from . import announce
from .heartbeat import heartbeat
from .imports import log_line
from .isolated_ranks import LOOPBACK, is_isolated, warn_isolated
from .launcher_client import launcher
from .main_process import is_main_process, rank, world_size


def after_jax_distributed(module):
    """Fill in the arguments of `initialize()`, without its search for a cluster, which would ask the API server."""
    import inspect

    original = module.initialize
    signature = inspect.signature(original)

    def initialize(*args, **kwargs):
        given = signature.bind_partial(*args, **kwargs).arguments
        env = os.environ
        with contextlib.suppress(Exception):
            _warn_of_mismatch(_mismatches(given, env))
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
        if not is_main_process() or world_size() < 2 or given.get("num_processes") != world_size():
            return original(**given)
        heartbeat.uncounted = True  # from here on the heartbeat comes, but JAX's collectives are not counted
        with heartbeat.rendezvous():
            return original(**given)

    initialize.__doc__ = original.__doc__
    module.initialize = initialize


def _mismatches(given, env):
    """Arguments of `initialize` with which the job's ranks will not meet. JAX would wait five minutes for them."""
    job_ranks, own_rank, nodes = (
        env.get(name, "") for name in ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "COTENANT_NODES")
    )
    wrong = []
    if job_ranks and given.get("num_processes") not in (None, int(job_ranks)):
        wrong.append(f"num_processes={given['num_processes']}, but the job has {job_ranks} ranks")
    if own_rank and given.get("process_id") not in (None, int(own_rank)):
        wrong.append(f"process_id={given['process_id']}, but this is rank {own_rank}")
    where = str(given.get("coordinator_address") or "")
    if where.rpartition(":")[0] in LOOPBACK and nodes not in ("", "1"):
        wrong.append(f"coordinator_address={where}, but the job's ranks are in {nodes} pods")
    return wrong


def _warn_of_mismatch(wrong):
    if wrong and is_main_process():
        text = f"jax.distributed.initialize is given {'; '.join(wrong)}. Without arguments it joins the job's ranks"
        log_line(text)
        launcher.warn("jax-arguments", text)


_SHUTDOWN_WARNING_S = 30.0
"""Ranks of one program may end this far apart without a warning."""


def after_jax_state(module):
    """Let a failed rank end at once.

    JAX makes every rank wait up to five minutes for all others at its end. The others would wait for it in their
    collectives meanwhile, and its error would stay unknown.
    """
    original = module.State.shutdown

    def shutdown(self):
        if self.client is not None and getattr(sys, "last_value", None) is not None:
            _leak(self.client, self.service)
            return None
        with _shutdown_warning(self.client is not None):
            return original(self)

    module.State.shutdown = shutdown


def _leak(*held):
    """Keep these objects alive to the end: their destructors would wait too, and the service's would abort this
    process.
    """
    import ctypes

    for each in held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


@contextlib.contextmanager
def _shutdown_warning(waits):
    """Show a warning while the body runs for more than `_SHUTDOWN_WARNING_S`."""
    text = f"rank {rank()} has come to its end and waits for the others in jax.distributed.shutdown()"
    warned = []

    def warn(text):
        warned.append(text)
        launcher.warn(f"end-{rank()}", text)

    timer = threading.Timer(_SHUTDOWN_WARNING_S, warn, [text])
    timer.daemon = True
    if waits and is_main_process():
        with contextlib.suppress(RuntimeError):  # Python 3.12 starts no thread any more where it ends
            timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if warned:
            warn("")


_RENDEZVOUS_BY_S = 60.0
"""Seconds after JAX made its devices. Ranks that use JAX may meet in `all_reduce` instead, in their first step."""


def after_jax_devices(module):
    """Warn if devices are made before `jax.distributed.initialize`: they then belong to this process alone."""
    original = getattr(module, "_init_backend", None)
    if original is None:
        return
    looked = []

    def init_backend(*args, **kwargs):
        result = original(*args, **kwargs)
        if not looked:
            looked.append(True)
            with contextlib.suppress(Exception):
                _warn_if_isolated()
        return result

    module._init_backend = init_backend


def _warn_if_isolated():
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if state is None or state.client is not None or world_size() < 2 or not is_main_process():
        return
    warned = []

    def warn():
        if not warned and is_isolated():
            warned.append(True)
            warn_isolated(
                "JAX made its devices without jax.distributed.initialize() (in Keras: keras.distribution.initialize())."
                " Call it before anything else, without arguments, or ask for workers: 1"
            )

    timer = threading.Timer(_RENDEZVOUS_BY_S, warn)
    timer.daemon = True
    timer.start()
    atexit.register(warn)  # a program may be shorter


def after_ray_train(module):
    """Pass Ray Train's reports on as the job's progress."""
    original = module.report
    count = [0]

    def report(metrics, *args, **kwargs):
        count[0] += 1
        with contextlib.suppress(Exception):
            if count[0] == 1:
                announce()
            numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, (int, float))}
            step = int(numbers.get("step", count[0]))
            heartbeat.report({"op": "report", "step": step, "metrics": numbers, "at_monotonic_s": time.monotonic()})
            if kwargs.get("checkpoint") is not None:
                launcher.send({"op": "saved", "step": step})
        return original(metrics, *args, **kwargs)

    report.__doc__ = original.__doc__
    module.report = report
