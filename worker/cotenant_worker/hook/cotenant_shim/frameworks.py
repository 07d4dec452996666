"""JAX's missing arguments, ranks whose JAX does not meet, and Ray Train's reports as ours."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time

from .announce import begin
from .heartbeat import pulse
from .imports import complain
from .isolated_ranks import LOOPBACK, is_alone, warn_alone
from .main_process import is_main_process, ranks


def after_jax_distributed(module):
    """`initialize()` without arguments; and no search for a cluster, which in a pod would be the API server's word."""
    import inspect

    original = module.initialize
    signature = inspect.signature(original)

    def initialize(*args, **kwargs):
        given = signature.bind_partial(*args, **kwargs).arguments
        env = os.environ
        with contextlib.suppress(Exception):
            _object(_objection(given, env))
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
        if not is_main_process() or ranks() < 2 or given.get("num_processes") != ranks():
            return original(**given)
        pulse.mute = True  # from here on it is heard, but what it does is not counted
        with pulse.meeting():
            return original(**given)

    initialize.__doc__ = original.__doc__
    module.initialize = initialize


def _objection(given, env):
    """What a program says to `initialize` by which the job's ranks will not meet. JAX waits five minutes for them."""
    ranks, rank, nodes = (env.get(name, "") for name in ("JAX_NUM_PROCESSES", "JAX_PROCESS_ID", "COTENANT_NODES"))
    wrong = []
    if ranks and given.get("num_processes") not in (None, int(ranks)):
        wrong.append(f"num_processes={given['num_processes']}, but the job has {ranks} ranks")
    if rank and given.get("process_id") not in (None, int(rank)):
        wrong.append(f"process_id={given['process_id']}, but this is rank {rank}")
    where = str(given.get("coordinator_address") or "")
    if where.rpartition(":")[0] in LOOPBACK and nodes not in ("", "1"):
        wrong.append(f"coordinator_address={where}, but the job's ranks are in {nodes} pods")
    return wrong


def _object(wrong):
    if wrong and is_main_process():
        text = f"jax.distributed.initialize is given {'; '.join(wrong)}. Without arguments it joins the job's ranks"
        complain(text)
        pulse.send({"op": "warning", "key": "jax-arguments", "text": text})


_END_S = 30.0
"""Ranks of one program end that far apart without a word."""


def after_jax_state(module):
    """The end of a rank. JAX lets it wait there for all others, five minutes long.

    One that failed must not: the others wait for it in their collectives, and nobody would hear why.
    """
    original = module.State.shutdown

    def shutdown(self):
        if self.client is not None and getattr(sys, "last_value", None) is not None:
            _leave_as_they_are(self.client, self.service)
            return None
        with _waiting_is_said(self.client is not None):
            return original(self)

    module.State.shutdown = shutdown


def _leave_as_they_are(*held):
    """Their destructors would wait too, and that of the service would end this process by a signal."""
    import ctypes

    for each in held:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))


@contextlib.contextmanager
def _waiting_is_said(waits):
    text = f"rank {pulse.rank} has come to its end and waits for the others in jax.distributed.shutdown()"
    said = []

    def tell(text):
        said.append(text)
        pulse.send({"op": "warning", "key": f"end-{pulse.rank}", "text": text})

    later = threading.Timer(_END_S, tell, [text])
    later.daemon = True
    if waits and is_main_process():
        with contextlib.suppress(RuntimeError):  # Python 3.12 starts no thread any more where it ends
            later.start()
    try:
        yield
    finally:
        later.cancel()
        if said:
            tell("")


_TOGETHER_BY_S = 60.0
"""After JAX made its devices. Ranks that use JAX may meet in our ring instead, in their first step."""


def after_jax_devices(module):
    """Devices that are made before `jax.distributed.initialize` are this process's own, for as long as it lives."""
    original = getattr(module, "_init_backend", None)
    if original is None:
        return
    asked = []

    def init_backend(*args, **kwargs):
        result = original(*args, **kwargs)
        if not asked:
            asked.append(True)
            with contextlib.suppress(Exception):
                _look_for_others()
        return result

    module._init_backend = init_backend


def _look_for_others():
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if state is None or state.client is not None or ranks() < 2 or not is_main_process():
        return
    told = []

    def tell():
        if not told and is_alone():
            told.append(True)
            warn_alone(
                "JAX made its devices without jax.distributed.initialize() (in Keras: keras.distribution.initialize())."
                " Call it before anything else, without arguments, or ask for workers: 1"
            )

    later = threading.Timer(_TOGETHER_BY_S, tell)
    later.daemon = True
    later.start()
    atexit.register(tell)  # a program may be shorter


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
