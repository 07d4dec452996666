"""torch as a rank has it: collectives, precision, optimizers. Each function gets a module that was just imported."""

from __future__ import annotations

import contextlib
import os
import re
import sys

from .heartbeat import pulse
from .imports import complain
from .isolated_ranks import LOOPBACK, handed_over, is_alone, siblings, warn_alone
from .main_process import is_main_process, ranks, trains
from .preflight import preflight
from .steps import steps

_NCCL = re.compile(r"\bnccl(2|-lazy|-legacy)?\b", re.IGNORECASE)
"""torch's names for it; `cpu:gloo,cuda:nccl` holds one of them."""


def substitute_backend(backend):
    """`nccl` becomes gloo where the launcher said so."""
    if os.environ.get("COTENANT_COLLECTIVE") != "gloo" or backend is None:
        return backend
    return _NCCL.sub("gloo", str(backend)) if _NCCL.search(str(backend)) else backend


def transport(c10d):
    """What reduces this group's tensors where the model is: `nccl`, `gloo`, or another name of torch's."""
    config = str(c10d.get_backend_config()) if hasattr(c10d, "get_backend_config") else str(c10d.get_backend())
    if _NCCL.search(config):
        return "nccl"
    by_device = dict(part.partition(":")[::2] for part in config.split(","))
    return by_device.get("cuda") or by_device.get("cpu") or config


def after_distributed(c10d):
    original = c10d.init_process_group

    def init_process_group(backend=None, *args, **kwargs):
        chosen = substitute_backend(backend)
        if chosen != backend:
            if is_main_process() or _is_first(*args, **kwargs):
                complain(f"backend {backend!r} cannot work here (see the job's progress); using {chosen!r}")
            kwargs.pop("device_id", None)
        if not (is_main_process() or (_meets_the_job(*args, **kwargs) and trains())):
            result = original(chosen, *args, **kwargs)
            siblings[:] = [c10d.get_world_size() < ranks() or _stays_in_the_pod(*args, **kwargs)]
            return result
        with pulse.meeting():
            result = original(chosen, *args, **kwargs)
        with contextlib.suppress(Exception):
            pulse.send({"op": "mark", "what": f"process group of rank {pulse.rank}"})
            pulse.met = c10d.get_world_size() == ranks()
            if pulse.met:
                pulse.send({"op": "collective", "name": transport(c10d)})
            pulse.counters["torch"] = lambda: c10d._world.default_pg._get_sequence_number_for_group()  # noqa: PLW0108 - the group may be replaced
            pulse.stirs["torch"] = lambda: sum(group._get_sequence_number_for_group() for group in c10d._world.pg_map)
            pulse.start()
        preflight(c10d, cuda=transport(c10d) == "nccl")
        with contextlib.suppress(Exception):
            handed_over[:] = [pulse.stirs["torch"]()]
        return result

    init_process_group.__doc__ = original.__doc__
    init_process_group.__wrapped__ = original
    c10d.init_process_group = init_process_group


def _meets_the_job(init_method=None, _timeout=None, _world_size=-1, _rank=-1, store=None, *_args, **_kwargs):
    """Whether a child meets the other ranks there. A group of siblings alone may go on and stand as it likes."""
    env = os.environ
    address = f"tcp://{env.get('MASTER_ADDR')}:{env.get('MASTER_PORT')}"
    if init_method not in (None, "env://"):
        address = str(init_method)
    return store is None and address == f"tcp://{env.get('COTENANT_MASTER')}"


def _is_first(_init_method=None, _timeout=None, _world_size=-1, rank=-1, *_args, **_kwargs):
    """Whether a child is rank 0 of the group that it forms: what concerns all of them is said once."""
    return str(rank if rank >= 0 else os.environ.get("RANK")) == "0"


def _stays_in_the_pod(init_method=None, _timeout=None, _world_size=-1, _rank=-1, store=None, *_args, **_kwargs):
    """Whether a child meets at an address that the ranks in the job's other pods do not reach."""
    env = os.environ
    if store is not None or int(env.get("COTENANT_NODES", "1")) < 2:
        return False
    if init_method in (None, "env://"):
        return env.get("MASTER_ADDR") in LOOPBACK
    return str(init_method).startswith(tuple(f"tcp://{host}:" for host in LOOPBACK))


def after_data_parallel(module):
    """The job's `precision`: forward passes of DDP run under autocast and give float32 back, as Accelerate does it."""
    original = module.DistributedDataParallel.forward

    def forward(self, *inputs, **kwargs):
        import torch

        chosen = os.environ.get("COTENANT_PRECISION", "fp32")
        if chosen == "fp32" or torch.is_autocast_enabled(self.device_type) or "accelerate" in sys.modules:
            return original(self, *inputs, **kwargs)  # nothing asked, or the program decides by itself
        if scaling is not None and scaling.usable:
            scaling.active = True
            scaling.watch(self.module.parameters())
        with torch.autocast(self.device_type, dtype=torch.bfloat16 if chosen == "bf16" else torch.float16):
            result = original(self, *inputs, **kwargs)
        return _to_float(result, torch)

    module.DistributedDataParallel.forward = forward
    scaling = loss_scaling()
    if scaling is not None:
        import torch

        scaling.scale_backward(torch.autograd, torch)
        if not scaling.usable:
            warn_precision("precision fp16: this torch cannot scale losses unasked; use torch.amp.GradScaler or bf16")


_scaling = []  # type: ignore[var-annotated]


def loss_scaling():
    """This process's `Scaling` where the job says fp16; None elsewhere."""
    if os.environ.get("COTENANT_PRECISION") != "fp16":
        return None
    if not _scaling:
        from .loss_scaling import Scaling

        _scaling.append(Scaling(warn_precision))
    return _scaling[0]


def warn_precision(text):
    pulse.send({"op": "warning", "key": "precision", "text": f"rank {pulse.rank}: {text}"})


def _to_float(value, torch):
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, dict):
        return type(value)({name: _to_float(each, torch) for name, each in value.items()})
    if type(value) in (list, tuple):
        return type(value)(_to_float(each, torch) for each in value)
    return value


def after_optimizer(module):
    """Steps of programs that do not report: those of the first optimizer, counted where every optimizer passes."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        return

    def stepped(optimizer, _args, _kwargs):
        if steps.made_by(optimizer) and is_alone():
            warn_alone()

    register(stepped)
    _scale_losses(module)


def _scale_losses(module):
    """Every parameter that an optimizer holds gets its gradients unscaled; a step with overflowed ones is left out."""
    scaling = loss_scaling()
    if scaling is None:
        return
    import torch

    original = module.Optimizer.add_param_group

    def add_param_group(self, param_group):
        original(self, param_group)
        scaling.watch(self.param_groups[-1]["params"])

    module.Optimizer.add_param_group = add_param_group
    scaling.usable = True
    module.register_optimizer_step_pre_hook(lambda optimizer, _args, _kwargs: scaling.before_step(optimizer, torch))
