"""GPU memory limits of torch and TensorFlow, as `cotenant_worker.ranks.memory_limits` computed them for this rank."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re

from .heartbeat import heartbeat
from .imports import EXIT_QUOTA, log_line
from .launcher_client import launcher
from .main_process import in_rank, is_main_process, note_use, rank


def limits():
    """UUID → {pool, total, quota} in bytes, and the number of processes that share it; empty without limits."""
    text = os.environ.get("COTENANT_LIMITS", "")
    return json.loads(text) if text else {}


def in_order(found):
    """The limit of each GPU in the order of the process's device numbers; None for a GPU without a limit."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return [found.get(uuid) for uuid in visible] if any(uuid in found for uuid in visible) else list(found.values())


def fraction_of(limit, total):
    return int(limit["pool"] / total * 1e6) / 1e6


def merged_alloc_conf(value, fraction):
    """The tenant's allocator settings with our limit last: the last value of a key counts."""
    kept = [part for part in value.split(",") if part and not part.strip().startswith("per_process_memory_fraction")]
    return ",".join([*kept, f"per_process_memory_fraction:{fraction:.6f}"])


def before_torch(spec):
    """Give the limit to torch's allocator before torch runs, if it knows the key (2.10 and later)."""
    found = limits()
    if not found or not spec.origin:
        return
    with contextlib.suppress(OSError):
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
            match = re.search(r"__version__ = ['\"](\d+)\.(\d+)", file.read())
        if match and (int(match[1]), int(match[2])) >= (2, 10):
            least = min(fraction_of(limit, limit["total"]) for limit in found.values())
            name = "PYTORCH_ALLOC_CONF"
            before = os.environ.get(name) or os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")  # torch heeds one of them
            os.environ[name] = merged_alloc_conf(before, least)


def after_torch(torch):
    if hasattr(torch, "cuda") and hasattr(torch.cuda, "_lazy_call"):
        torch.cuda._lazy_call(_limit_torch)
    for name in ("_cuda_init", "_cuda_getDeviceCount"):  # the first of them reads the variable
        if hasattr(getattr(torch, "_C", None), name):
            setattr(torch._C, name, _among_own_gpus(getattr(torch._C, name)))


def own_gpus():
    """UUIDs of the GPUs that a program means if it writes numbers into CUDA_VISIBLE_DEVICES, or removes it; empty if
    the text is to be taken as it is.

    `os.environ["CUDA_VISIBLE_DEVICES"] = os.environ["LOCAL_RANK"]` is right where a rank has a machine of its own, or
    sees all of it. CUDA counts the GPUs of the container, which may have other ranks.
    """
    own, written = os.environ.get("COTENANT_GPUS", ""), os.environ.get("CUDA_VISIBLE_DEVICES")
    if os.environ.get("COTENANT_POD_RANKS", "1") == "1" or not own:
        return ""
    if written is None:
        return own
    names, chosen = own.split(","), written.split(",")
    if not all(each.isdigit() for each in chosen):
        return ""
    if max(map(int, chosen)) < len(names):
        return ",".join(names[int(each)] for each in chosen)
    return own if len(chosen) >= len(names) else ""  # `0,1,2,3` are all of a machine: to this rank its own


def _among_own_gpus(function):
    """The function, called while CUDA_VISIBLE_DEVICES has `own_gpus`."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        written, uuids = os.environ.get("CUDA_VISIBLE_DEVICES"), own_gpus()
        if not uuids:
            return function(*args, **kwargs)
        os.environ["CUDA_VISIBLE_DEVICES"] = uuids
        try:
            return function(*args, **kwargs)
        finally:
            if written is None:
                del os.environ["CUDA_VISIBLE_DEVICES"]
            else:
                os.environ["CUDA_VISIBLE_DEVICES"] = written

    return call


def _limit_torch():
    """Limit the pools of all visible GPUs. torch applies it when CUDA starts here, after any fork."""
    import torch

    note_use("cuda")
    found = limits()
    seen = []
    by_hex = {uuid.split("-", 1)[-1]: limit for uuid, limit in found.items()}
    try:
        caps = {}
        for index in range(torch.cuda.device_count()):
            uuid = str(getattr(torch.cuda.get_device_properties(index), "uuid", ""))
            seen.append(f"GPU-{uuid}")
            limit = by_hex.get(uuid) or (next(iter(found.values())) if len(found) == 1 else None)
            if limit is not None:
                caps[index] = fraction_of(limit, torch.cuda.mem_get_info(index)[1])
                torch.cuda.set_per_process_memory_fraction(caps[index], index)
        if caps:
            _cap_setter(torch.cuda, caps)
    except Exception as error:
        if found:
            log_line(f"the GPU memory limit could not be set: {type(error).__name__}: {error}")
            os._exit(EXIT_QUOTA)
        return
    if seen and is_main_process():
        launcher.report_gpus(seen)
        heartbeat.start()
    elif found and seen and in_rank() and not any(limit["processes"] > 1 for limit in found.values()):
        text = f"rank {rank()} uses its GPU from several processes, and each may take the whole limit:"
        text += " say how many there are in runtime.gpuProcesses"
        launcher.warn(f"processes-{rank()}", text)


def _cap_setter(cuda, caps):
    """Let the program lower its limit, but not raise it."""
    original = cuda.set_per_process_memory_fraction

    def set_per_process_memory_fraction(fraction, device=None):
        index = cuda.current_device() if device is None else getattr(device, "index", device)
        return original(min(fraction, caps.get(index, 1.0)), device)

    cuda.set_per_process_memory_fraction = set_per_process_memory_fraction


def after_tensorflow(tf):
    found = in_order(limits())
    if not found:
        return
    try:
        devices = tf.config.list_physical_devices("GPU")
        for device, limit in zip(devices, found):  # noqa: B905 - Python 3.8 has no strict=
            if limit is None:
                continue
            piece = tf.config.LogicalDeviceConfiguration(memory_limit=limit["pool"] >> 20)
            tf.config.set_logical_device_configuration(device, [piece])
    except Exception as error:
        log_line(f"the GPU memory limit of TensorFlow could not be set: {type(error).__name__}: {error}")
        os._exit(EXIT_QUOTA)
    if devices:
        # TensorFlow cannot combine a limit with memory growth. The limit has the effect that programs ask growth for.
        tf.config.experimental.set_memory_growth = lambda *_args, **_kwargs: None
