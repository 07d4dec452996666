"""Patches of torch: collectives, precision, optimizers. Each `after_…` gets a module that was just imported."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys

from .heartbeat import heartbeat
from .imports import log_line
from .isolated_ranks import confined_children, is_isolated, sequence_at_start, stays_in_the_pod, warn_isolated
from .launcher_client import launcher
from .main_process import is_main_process, is_training_process, rank, world_size
from .preflight import preflight
from .steps import step_counter

_NCCL = re.compile(r"\bnccl(2|-lazy|-legacy)?\b", re.IGNORECASE)
"""torch's names for it. `cpu:gloo,cuda:nccl` contains one of them."""


def substitute_backend(backend):
    """gloo instead of `nccl`, if the launcher chose that (`COTENANT_COLLECTIVE`)."""
    if os.environ.get("COTENANT_COLLECTIVE") != "gloo" or backend is None:
        return backend
    return _NCCL.sub("gloo", str(backend)) if _NCCL.search(str(backend)) else backend


def transport(c10d):
    """The backend that reduces this group's tensors on the model's device: `nccl`, `gloo`, or another one of torch."""
    config = str(c10d.get_backend_config()) if hasattr(c10d, "get_backend_config") else str(c10d.get_backend())
    if _NCCL.search(config):
        return "nccl"
    by_device = dict(part.partition(":")[::2] for part in config.split(","))
    return by_device.get("cuda") or by_device.get("cpu") or config


def after_distributed(c10d):
    original = _undisturbed(c10d.init_process_group)

    def init_process_group(backend=None, *args, **kwargs):
        chosen, given = substitute_backend(backend), _given(args, kwargs)
        if chosen != backend:
            if is_main_process() or _is_first(given):
                log_line(f"backend {backend!r} cannot work here (see the job's progress); using {chosen!r}")
            given.pop("device_id", None)
        if is_main_process():
            given = in_the_jobs_group(given)
        if not (is_main_process() or (_is_job_rendezvous(given) and is_training_process())):
            result = original(chosen, **given)
            confined_children[:] = [c10d.get_world_size() < world_size() or stays_in_the_pod(given)]
            return result
        with heartbeat.rendezvous(_meeting(given)):
            result = original(chosen, **given)
        with contextlib.suppress(Exception):
            launcher.send({"op": "phase", "phase": f"process group of rank {rank()}"})
            heartbeat.rendezvoused = c10d.get_world_size() == world_size()
            if heartbeat.rendezvoused:
                launcher.send({"op": "collective", "name": transport(c10d)})
            heartbeat.collectives["torch"] = lambda: c10d._world.default_pg._get_sequence_number_for_group()  # noqa: PLW0108 - the group may be replaced
            heartbeat.timeout = lambda: longest_timeout_s(c10d)
            heartbeat.activity["torch"] = lambda: sum(g._get_sequence_number_for_group() for g in c10d._world.pg_map)
            heartbeat.start()
        preflight(c10d, cuda=transport(c10d) == "nccl")
        with contextlib.suppress(Exception):
            sequence_at_start[:] = [heartbeat.activity["torch"]()]
        return result

    init_process_group.__doc__ = original.__doc__
    init_process_group.__wrapped__ = original
    c10d.init_process_group = init_process_group
    _count_before_the_end(c10d)
    _take_bare_ipv6(c10d)


_PARAMETERS = ("init_method", "timeout", "world_size", "rank", "store", "group_name", "pg_options", "device_id")
"""Of `init_process_group`, behind the backend."""


def _undisturbed(original):
    """`init_process_group` without meeting another process of the same rank, or an earlier start of the job.

    - A group of one process needs no address. At the rank's another process may listen, such as the one that has
      started this one to evaluate. (Under torchrun the agent listens there for all.)
    - The file of `file://…` may have the addresses of an earlier start, that was killed. So each start has its own.
    """

    @functools.wraps(original)
    def call(backend, **given):
        method = str(given.get("init_method") or "env://")
        start = f"{os.environ.get('COTENANT_ATTEMPT', '1')}-{os.environ.get('COTENANT_RESTART', '0')}"
        if method.startswith("file://") and start != "1-0":
            path, mark, query = method.partition("?")
            return original(backend, **dict(given, init_method=f"{path}.{start}{mark}{query}"))
        alone = method == "env://" and given.get("store") is None and _meeting(given) == 1
        if alone and not (is_main_process() and world_size() == 1):
            from torch._C._distributed_c10d import HashStore

            return original(backend, **{**given, "init_method": None, "store": HashStore(), "rank": 0, "world_size": 1})
        return original(backend, **given)

    return call


def _given(args, kwargs):
    """The arguments of `init_process_group` by their names."""
    return {**dict(zip(_PARAMETERS, args)), **kwargs}  # noqa: B905 - Python 3.8 has no strict=


def in_the_jobs_group(given):
    """The arguments, corrected where a program that was written for one machine would not meet the job's other ranks.

    Such a program passes "localhost", which ranks in other pods cannot reach, or LOCAL_RANK as its rank, which several
    ranks share.
    """
    env, given = os.environ, dict(given)
    size, number = given.get("world_size", -1), given.get("rank", -1)
    size = size if size >= 0 else int(env.get("WORLD_SIZE") or -1)
    number = number if number >= 0 else int(env.get("RANK") or -1)
    own = number == rank() or str(number) == env.get("LOCAL_RANK")
    if given.get("store") is not None or size != world_size() or size < 2 or not own:
        return given
    told = []
    if number != rank():
        given["rank"] = rank()
        told.append(f"rank {number} is rank {rank()} of {size}: LOCAL_RANK counts the ranks of one machine")
    if stays_in_the_pod(given):
        told.append(f"rank {rank()} of {size} meets the others at {env['COTENANT_MASTER']}: they are in other pods")
        if given.get("init_method") in (None, "env://"):
            host, _, env["MASTER_PORT"] = env["COTENANT_MASTER"].rpartition(":")
            env["MASTER_ADDR"] = host.strip("[]")
        else:
            given["init_method"] = f"tcp://{env['COTENANT_MASTER']}"
    for line in told:
        log_line(line)
    return given


_BARE_IPV6 = re.compile(r"^tcp://([^][/]*:[^][/]*):(\d+)")


def bracketed(url):
    """The address with the brackets that IPv6 needs: `tcp://{MASTER_ADDR}:{MASTER_PORT}` has none."""
    return _BARE_IPV6.sub(r"tcp://[\1]:\2", url) if isinstance(url, str) else url


def _take_bare_ipv6(c10d):
    """Let programs meet at an address of IPv6 as they write it for IPv4, also by a function of their own."""
    original = c10d.rendezvous

    @functools.wraps(original)
    def rendezvous(url, *args, **kwargs):
        return original(bracketed(url), *args, **kwargs)

    c10d.rendezvous = rendezvous


def _count_before_the_end(c10d):
    """Read the count of collectives before a group is destroyed; afterwards it has none."""
    original = getattr(c10d, "destroy_process_group", None)
    if original is None:
        return

    @functools.wraps(original)
    def destroy_process_group(*args, **kwargs):
        heartbeat.count_collectives()
        return original(*args, **kwargs)

    c10d.destroy_process_group = destroy_process_group


def longest_timeout_s(c10d):
    """Seconds after which torch itself ends a collective, for the process group with the longest timeout."""
    found = [0.0]
    for group in list(c10d._world.pg_map):
        for device in group._device_types:
            with contextlib.suppress(Exception):
                found.append(group._get_backend(device).options._timeout.total_seconds())
    return max(found)


def _is_job_rendezvous(given):
    """True if a child meets the other ranks at this address. A group within the rank is not watched."""
    env, method = os.environ, given.get("init_method")
    address = f"tcp://{env.get('MASTER_ADDR', '')}:{env.get('MASTER_PORT')}" if method in (None, "env://") else method
    return given.get("store") is None and bracketed(str(address)) == f"tcp://{env.get('COTENANT_MASTER')}"


def _meeting(given):
    """Number of processes that this group waits for; 0 if neither the call nor WORLD_SIZE has it."""
    size = given.get("world_size", -1)
    return size if size > 0 else int(os.environ.get("WORLD_SIZE") or 0)


def _is_first(given):
    """True if this process is rank 0 of the group that it forms. What concerns the whole group is logged once."""
    number = given.get("rank", -1)
    return str(number if number >= 0 else os.environ.get("RANK")) == "0"


def after_data_parallel(module):
    """Apply the job's `precision`: forward passes of DDP run under autocast and return float32, as in Accelerate."""
    original = module.DistributedDataParallel.forward

    def forward(self, *inputs, **kwargs):
        import torch

        chosen = os.environ.get("COTENANT_PRECISION", "fp32")
        if chosen == "fp32" or torch.is_autocast_enabled(self.device_type) or "accelerate" in sys.modules:
            return original(self, *inputs, **kwargs)  # nothing asked, or the program decides by itself
        if scaler is not None and scaler.usable:
            scaler.active = True
            scaler.watch(self.module.parameters())
        with torch.autocast(self.device_type, dtype=torch.bfloat16 if chosen == "bf16" else torch.float16):
            result = original(self, *inputs, **kwargs)
        return _to_float(result, torch)

    module.DistributedDataParallel.forward = forward
    scaler = loss_scaler()
    if scaler is not None:
        import torch

        scaler.scale_backward(torch.autograd, torch)
        if not scaler.usable:
            warn_precision("precision fp16: this torch cannot scale losses unasked; use torch.amp.GradScaler or bf16")


def after_loader_worker(module):
    """Name a DataLoader's workers as torch 2.6 and later do. The launcher does not ask them to leave."""
    original = module._worker_loop

    @functools.wraps(original)
    def named(*args, **kwargs):
        with contextlib.suppress(OSError), open("/proc/self/comm", "w") as comm:
            comm.write("pt_data_worker")
        return original(*args, **kwargs)

    module._worker_loop = named


_scalers = []  # type: ignore[var-annotated]


def loss_scaler():
    """This process's `LossScaler` if the job's precision is fp16; otherwise None."""
    if os.environ.get("COTENANT_PRECISION") != "fp16":
        return None
    if not _scalers:
        from .loss_scaling import LossScaler

        _scalers.append(LossScaler(warn_precision))
    return _scalers[0]


def warn_precision(text):
    launcher.warn("precision", f"rank {rank()}: {text}")


def _to_float(value, torch):
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype in (torch.bfloat16, torch.float16) else value
    if isinstance(value, dict):
        return type(value)({name: _to_float(each, torch) for name, each in value.items()})
    if type(value) in (list, tuple):
        return type(value)(_to_float(each, torch) for each in value)
    return value


def after_optimizer(module):
    """Count the steps of programs that do not report: those of the first optimizer. Every optimizer passes here."""
    register = getattr(module, "register_optimizer_step_post_hook", None)
    if register is None:
        return

    def stepped(optimizer, _args, _kwargs):
        if step_counter.add_optimizer_step(optimizer) and is_isolated():
            warn_isolated()

    register(stepped)
    _scale_losses(module)


def _scale_losses(module):
    """Unscale the gradients of every parameter that an optimizer holds, and skip a step with overflowed ones."""
    scaler = loss_scaler()
    if scaler is None:
        return
    import torch

    original = module.Optimizer.add_param_group

    def add_param_group(self, param_group):
        original(self, param_group)
        scaler.watch(self.param_groups[-1]["params"])

    module.Optimizer.add_param_group = add_param_group
    scaler.usable = True
    module.register_optimizer_step_pre_hook(lambda optimizer, _args, _kwargs: scaler.before_step(optimizer, torch))
