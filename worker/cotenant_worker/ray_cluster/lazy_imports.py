"""Ray imported with less work, in the processes of a pod that are ours alone: its node, the driver, the actor.

No code of the tenant runs in them, so what only other ways of using Ray need is imported at its first use, and
the garbage collector does not look through half-imported modules again and again. Together that is a third of what
`import ray` costs, four times in a job of two pods.
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
"""Of Ray's imports: for Google's TPUs and the dashboard's history; for plugins of runtime environments."""
_GC_THRESHOLD = 50_000
"""Objects between two looks for garbage: about as many as `import ray` makes."""


def install_lazy_imports() -> None:
    """Make imports of Ray in this process lazy; before the first one."""
    gc.set_threshold(_GC_THRESHOLD, 20, 20)
    if not any(isinstance(finder, LazyFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, LazyFinder())


class LazyModule(ModuleType):
    """A module that runs when an attribute of it is asked for that it does not have yet, or one of its parts."""

    def __getattr__(self, name: str) -> Any:
        """Asked once per missing name; the module is an ordinary one from then on."""
        execute_module(self)
        return getattr(self, name)


def execute_module(module: LazyModule) -> None:
    """Run the module's text, as its import would have."""
    module.__class__ = ModuleType  # type: ignore[assignment]
    assert module.__spec__ is not None
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)


class LazyLoader:
    """Makes the module and leaves it at that."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.inner
        module.__class__ = LazyModule


class ImportedModuleLoader:
    """A part that came with its package while it was being looked for."""

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
        """A package runs before its parts; it may import them itself."""
        if not isinstance(package, LazyModule):
            return None
        execute_module(package)
        if (part := sys.modules.get(name)) is None:
            return None
        # The interpreter prefers the spec of a module that came meanwhile, and would run that module a second time.
        part.__spec__ = importlib.util.spec_from_loader(name, ImportedModuleLoader(part))  # type: ignore[arg-type]
        return part.__spec__
