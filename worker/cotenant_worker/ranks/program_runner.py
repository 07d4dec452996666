"""Runs a rank's program in this process as if Python had been started with it.

`python train.py`, `python -m package.train` and `module:function` all end here, forked or not. A traceback shows the
user's frames only. The exit code is the program's own.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import faulthandler
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import os
import pkgutil
import sys
import traceback
import types
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from cotenant_worker.host import layout
from cotenant_worker.ranks.program import Program


def run(program: Program) -> int:
    """The program's exit code. SystemExit passes through, so that the interpreter ends as usual."""
    if not faulthandler.is_enabled():
        faulthandler.enable(all_threads=False)  # a crash in native code shows the line of Python that led there
    well: list[bool] = []
    atexit.register(lambda: _leave_group() if well else None)  # before the program's own, so that it runs after them
    try:
        if program.kind == "script":
            _run_script(program.argv)
        elif program.kind == "module":
            _run_module(program.argv)
        else:
            _run_entrypoint(program.argv[0])
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            well.append(True)
        else:
            sys.last_value = leaving
        raise
    except BaseException as error:
        _print_exception(error)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    well.append(True)
    return 0


def _leave_group() -> None:
    """Leave the process group of a program that is done: otherwise gloo's threads may abort the process at its end.

    Not after a failure: torch would wait for unfinished work, and the peers may be gone.
    """
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    with contextlib.suppress(Exception):
        if distributed and distributed.is_initialized() and distributed.get_backend() == "gloo":
            distributed.destroy_process_group()


def _become_main(path: str, spec: Any = None) -> types.ModuleType:
    """A new `__main__`, so that pickling and multiprocessing find the user's names."""
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__spec__ = spec
    vars(module).update(__builtins__=builtins, __annotations__={}, __cached__=None)  # as in every `__main__`
    sys.modules["__main__"] = module
    return module


def _run_script(argv: tuple[str, ...]) -> None:
    path = Path(argv[0])
    if _needs_interpreter(path):
        os.execv(sys.executable, [sys.executable, "-u", *argv])
    if not path.is_file():
        where = f"there is no file {argv[0]!r} in {Path.cwd()}: is `runtime.code` mounted?"
        print(f"cotenant: {where} A file of the image has its whole path: /app/train.py", file=sys.stderr)  # noqa: T201
        raise SystemExit(2)
    sys.argv = list(argv)
    sys.orig_argv = [sys.executable, "-u", *argv]
    _hide_frames_of_ours("<frozen runpy>")
    if not sys.flags.safe_path:
        _prepend_to_path(str(path.resolve().parent))
        _forget_hidden(path.resolve().parent)
    name = os.path.join(os.getcwd(), argv[0])  # absolute, as the interpreter makes it
    module = _become_main(name)
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", name)
    code = compile(path.read_bytes(), name, "exec", dont_inherit=True)  # of this module nothing: no future statement
    exec(code, module.__dict__)  # noqa: S102 - running it is the purpose


def _hide_frames_of_ours(*below: str) -> None:
    """Let `inspect.stack()` end with the program, whose file many take from there: `inspect.stack()[-1].filename`.
    `below` names more files without frames under plain Python.
    """
    ours = (__file__, str(Path(__file__).with_name("fork_server.py")))
    original = inspect.getouterframes

    @functools.wraps(original)
    def getouterframes(frame: Any, context: int = 1) -> list[inspect.FrameInfo]:
        found = original(frame, context)
        while below and found and found[-1].filename in (*ours, *below):
            found.pop()
        return [each for each in found if each.filename not in ours]

    inspect.getouterframes = getouterframes


def _needs_interpreter(path: Path) -> bool:
    """True for what is not text: a folder or an archive with a `__main__` (`python app.pyz`), bytecode, a pipe.

    Also for a file that this user may not read: the interpreter says so.
    """
    if not path.is_file() or not os.access(path, os.R_OK):
        return path.exists()
    return path.suffix == ".pyc" or pkgutil.get_importer(str(path)) is not None


def _run_module(argv: tuple[str, ...]) -> None:
    if not sys.flags.safe_path:
        _prepend_to_path(str(Path.cwd()))
        _forget_hidden(Path.cwd())
    name = argv[0]
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        name += ".__main__"
        spec = importlib.util.find_spec(name)
    if spec is None or spec.loader is None or spec.origin is None:
        print(f"cotenant: no module named {argv[0]!r} on {sys.path[:3]}", file=sys.stderr)  # noqa: T201
        raise SystemExit(1)
    _hide_frames_of_ours()  # those of runpy are there under plain Python too
    sys.argv = [spec.origin, *argv[1:]]
    sys.orig_argv = [sys.executable, "-u", "-m", *argv]
    module = _become_main(spec.origin, spec)
    module.__loader__ = spec.loader
    vars(module)["__cached__"] = spec.cached
    module.__package__ = spec.parent
    exec(spec.loader.get_code(name), module.__dict__)  # type: ignore[attr-defined]  # noqa: S102


def _run_entrypoint(target: str) -> None:
    module_name, _, function_name = target.partition(":")
    _prepend_to_path(os.environ.get(layout.ENV_CODE_DIR) or str(Path.cwd()))
    sys.argv = [target]
    function: Any = importlib.import_module(module_name)
    for part in function_name.split("."):
        if not hasattr(function, part):
            print(f"cotenant: entrypoint {target!r}: module {module_name!r} has no {function_name!r}", file=sys.stderr)  # noqa: T201
            raise SystemExit(2)
        function = getattr(function, part)
    from cotenant_worker import reporting

    needs = [
        each
        for each in inspect.signature(function).parameters.values()
        if each.default is each.empty and each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    result = function(reporting.context()) if len(needs) == 1 else function()
    if isinstance(result, dict):
        reporting.results(result)


def _prepend_to_path(directory: str) -> None:
    if directory in sys.path:
        sys.path.remove(directory)
    sys.path.insert(0, directory)


_OF_EVERY_START: Final = frozenset(
    {"abc", "codecs", "encodings", "genericpath", "io", "os", "posixpath", "site", "stat"}
)
"""Modules of the standard library that Python imports before any program, so no program can replace them."""
_NOT_OF_PROGRAMS: Final = frozenset({"__main__", "sitecustomize", "usercustomize"})
"""Modules of an interpreter's start. A program's own are not imported then."""


def _forget_hidden(directory: Path) -> None:
    """Forget modules of the standard library that the program has its own version of (`tokenize.py`).

    The program would import its own, but this process has imported the standard ones, for itself and for the modules
    imported ahead.
    """
    hideable = sys.stdlib_module_names - _OF_EVERY_START - set(sys.builtin_module_names)
    hidden = _modules_in(directory, hideable)
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[name]


def hides_imported(program: Program) -> bool:
    """True if the program has its own version of a library that this process has imported ahead, such as `packaging/`.

    A library with compiled parts cannot be forgotten, so such a program starts in an interpreter of its own.
    """
    if sys.flags.safe_path and program.kind != "entrypoint":
        return False
    directory = Path(program.argv[0]).resolve().parent if program.kind == "script" else Path.cwd()
    imported = {name for name in sys.modules if "." not in name} - sys.stdlib_module_names - _NOT_OF_PROGRAMS
    found = _modules_in(directory, imported) if directory.is_dir() else set()
    return any(not (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{directory}/") for name in found)


def _modules_in(directory: Path, names: Collection[str]) -> set[str]:
    """Those of the names that are modules or packages in a folder, which may have thousands of entries."""
    there = set(os.listdir(directory))
    packages = {name for name in there.intersection(names) if (directory / name / "__init__.py").is_file()}
    return packages | {name for name in names if f"{name}.py" in there}


def _print_exception(error: BaseException) -> None:
    """Print as the interpreter does, without our frames on top. A hook of the user is called."""
    trace = error.__traceback__
    ours = (str(Path(__file__).parents[1]), "<frozen importlib", importlib.__file__)
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    error.__traceback__ = trace  # the interpreter's own printer, which hooks such as torch's call, looks here
    if "cotenant_shim" in sys.modules:
        sys.modules["cotenant_shim"].record(error, trace)
    sys.last_value = error  # as the interpreter does: functions at the exit may read it
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, trace)
    else:
        traceback.print_exception(type(error), error, trace)
    sys.stdout.flush()
    sys.stderr.flush()


def main() -> None:
    """Cold start of an entrypoint: `python -m cotenant_worker.ranks.program_runner module:function`."""
    sys.exit(run(Program("entrypoint", (sys.argv[1],))))


if __name__ == "__main__":
    main()
