"""Imports Ray with less work in a pod's own processes: its node, the driver, the actor.

No code of the tenant runs in them, so parts for other uses of Ray are imported at their first use, and the garbage
collector does not scan half-imported modules repeatedly. That saves a third of what `import ray` costs, four times in a
job of two pods.
"""

from __future__ import annotations

import gc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

LAZY_PACKAGES = ("requests", "jsonschema")
"""Imports of Ray that are delayed: for Google's TPUs and the dashboard's history, and for plugins of runtime
environments.
"""
_GC_THRESHOLD = 50_000
"""Objects between two collections: about as many as `import ray` makes."""


def install_lazy_imports() -> None:
    """Make imports of Ray in this process lazy. Must be called before the first one."""
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
    if not any(isinstance(finder, LazyFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, LazyFinder())


class LazyModule(ModuleType):
    """A module that is executed when an attribute or a submodule of it is needed that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        """Called once for a missing name. Afterwards the module is an ordinary one."""
        execute_module(self)
        return getattr(self, name)


def execute_module(module: LazyModule) -> None:
    """Execute the module's code, as its import would have."""
    module.__class__ = ModuleType  # type: ignore[assignment]
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)


class LazyLoader:
    """Creates the module without executing it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.inner
        module.__class__ = LazyModule


class ImportedModuleLoader:
    """A submodule that its package imported while it was being looked for."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self.spec = module.__spec__

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class LazyFinder:
    """First on sys.meta_path; answers for LATER only."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package = name.partition(".")[0]
        if package not in LAZY_PACKAGES:
            return None
        if package != name:
            return self._find_part(name, sys.modules.get(package))
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return None
        spec.loader = LazyLoader(spec.loader)  # type: ignore[assignment]
        return spec

    def _find_part(self, name: str, package: ModuleType | None) -> importlib.machinery.ModuleSpec | None:
        """A package is executed before its submodules, and may import them itself."""
        if not isinstance(package, LazyModule):
            return None
        execute_module(package)
        if (part := sys.modules.get(name)) is None:
            return None
        # The interpreter prefers the spec of a module that came meanwhile, and would run that module a second time.
        part.__spec__ = importlib.util.spec_from_loader(name, ImportedModuleLoader(part))  # type: ignore[arg-type]
        return part.__spec__
