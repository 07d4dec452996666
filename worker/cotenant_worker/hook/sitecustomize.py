"""Runs before the first line of every Python program of a rank, because its directory is on PYTHONPATH.

It loads the shim by path, so it also works in interpreters without this package. Then it runs the `sitecustomize` that
it shadows, if there is one. If a run script replaces PYTHONPATH, cotenant_hook.pth in this package's own environment
loads the shim.
"""

import importlib.machinery
import importlib.util
import os
import sys

_here = os.path.dirname(os.path.abspath(__file__))


def _load(name, path, inside=None):
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=inside)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _is_standard(entry):
    """True for a folder of the standard library. A tenant's `select.py` on PYTHONPATH must not be imported by
    the shim.
    """
    inside = entry.startswith(os.path.dirname(os.__file__)) or entry.endswith(("lib-dynload", ".zip"))
    return inside and "-packages" not in entry


if os.environ.get("COTENANT_STATE_DIR") and "cotenant_shim" not in sys.modules:
    _whole, sys.path[:] = sys.path[:], [entry for entry in sys.path if _is_standard(entry)]
    try:
        _home = os.path.join(_here, "cotenant_shim")
        _shim = _load("cotenant_shim", os.path.join(_home, "__init__.py"), [_home])
        sys.modules["cotenant_worker.hook.cotenant_shim"] = _shim
        _shim.install()
    finally:
        sys.path[:] = _whole
    _code = os.environ.get("COTENANT_CODE_DIR")
    if _code and _code not in sys.path:
        sys.path.append(_code)  # behind what is installed, which a folder of the same name must not hide

if __name__ == "sitecustomize":
    _rest = [entry for entry in sys.path if os.path.abspath(entry or ".") != _here]
    _spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _rest)
    if _spec is not None and _spec.origin:
        _load("sitecustomize_of_the_image", _spec.origin)
