"""Import hook: patches some modules, before or after they run. See PEP 451 for finders and loaders."""

from __future__ import annotations

import _thread
import contextlib
import gc
import importlib
import importlib.util
import os
import sys

EXIT_QUOTA = 83

BEFORE = {"torch": ("memory", "before_torch")}
AFTER = {
    "multiprocessing.process": ("error_file", "after_multiprocessing"),
    "torch": ("memory", "after_torch"),
    "torch._tensor": ("manual_steps", "after_tensor"),
    "torch.distributed.distributed_c10d": ("torch_patches", "after_distributed"),
    "torch.distributed.launcher.api": ("nested_launchers", "after_launcher"),
    "torch.distributed.elastic.multiprocessing.api": ("nested_launchers", "after_worker_processes"),
    "torch.nn.parallel.distributed": ("torch_patches", "after_data_parallel"),
    "torch.utils.data._utils.worker": ("torch_patches", "after_loader_worker"),
    "torch.optim.optimizer": ("torch_patches", "after_optimizer"),
    "tensorflow": ("memory", "after_tensorflow"),
    "accelerate.commands.launch": ("nested_launchers", "after_accelerate"),
    "composer.cli.launcher": ("nested_launchers", "after_composer"),
    "deepspeed.launcher.runner": ("nested_launchers", "after_deepspeed"),
    "pip._internal.cli.main": ("nested_launchers", "after_pip"),
    "ray._private.worker": ("own_ray", "after_ray_worker"),
    "ray.scripts.scripts": ("own_ray", "after_ray_commands"),
    "ray.train": ("frameworks", "after_ray_train"),
    "ray.train.v2.api.data_parallel_trainer": ("own_ray", "after_ray_trainer"),
    "keras.src.callbacks.callback_list": ("steps", "after_keras_callbacks"),
    "tf_keras.src.callbacks": ("steps", "after_keras_callbacks"),
    "keras.src.optimizers.base_optimizer": ("framework_steps", "after_keras_optimizer"),
    "flax.training.train_state": ("framework_steps", "after_flax_train_state"),
    "flax.nnx.training.optimizer": ("framework_steps", "after_flax_optimizer"),
    "jax._src.profiler": ("framework_steps", "after_step_annotation"),
    "jax._src.xla_bridge": ("frameworks", "after_jax_devices"),
    "jax._src.distributed": ("frameworks", "after_jax_state"),
    "jax.distributed": ("frameworks", "after_jax_distributed"),
}
"""Module → the module of the shim and the function in it that patches it."""

LARGE_MODULES = frozenset({"torch", "torch._dynamo", "tensorflow"})
"""Modules imported without the garbage collector, which would scan the growing heap again and again."""
_FROZEN_AT_FIRST = gc.get_freeze_count()
"""Python 3.12 begins with some hundred frozen objects, all others with none."""


def watch_imports():
    if not any(isinstance(finder, PatchFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, PatchFinder())


def log_line(text):
    """A line in the tenant's log."""
    sys.stderr.write(f"cotenant: {text}\n")
    sys.stderr.flush()


def _function(home):
    return getattr(importlib.import_module(f".{home[0]}", __package__), home[1])


@contextlib.contextmanager
def without_collector(name):
    if name not in LARGE_MODULES or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() <= _FROZEN_AT_FIRST:
            # Puts all that is there into the oldest generation at once, without two scans of it.
            gc.freeze()
            gc.unfreeze()
        gc.enable()


class PatchLoader:
    """The real loader; afterwards it calls our function."""

    def __init__(self, inner, home):
        self._inner = inner
        self._home = home

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._inner
        with without_collector(module.__name__):
            self._inner.exec_module(module)
        if self._home is None:
            return
        try:
            _function(self._home)(module)
        except Exception as error:
            log_line(f"cannot adapt {module.__name__}: {type(error).__name__}: {error}")
            if os.environ.get("COTENANT_LIMITS") and self._home[0] == "memory":
                os._exit(EXIT_QUOTA)


class PatchFinder:
    """First on sys.meta_path: finds the modules of `AFTER` and `LARGE_MODULES` by the finders behind it."""

    def __init__(self):
        self._busy = set()

    def find_spec(self, name, path=None, target=None):
        home = AFTER.get(name)
        own = (_thread.get_ident(), name)
        if (home is None and name not in LARGE_MODULES) or own in self._busy:
            return None
        self._busy.add(own)
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            return None
        finally:
            self._busy.discard(own)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        if name in BEFORE:
            _function(BEFORE[name])(spec)
        spec.loader = PatchLoader(spec.loader, home)
        return spec
