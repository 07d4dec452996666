"""Habits of programs, as one table: each is a folder of small files and a command, for a run beside Cotenant and one in
it. What a program prints and how it ends must be the same.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Habit:
    name: str
    """What the program does, as a verb phrase."""
    text: str = ""
    """`train.py`."""
    command: tuple[str, ...] = ("python", "train.py")
    files: dict[str, str] = field(default_factory=dict)
    make: Callable[[Path], None] | None = None
    """Makes what is no text, in the folder of the program."""
    environment: dict[str, str] = field(default_factory=dict)
    same_output: bool = True
    """False where what is printed has times or addresses in it."""

    def write(self, folder: Path) -> None:
        for name, text in {"train.py": self.text, **self.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        if self.make is not None:
            self.make(folder)


def shell(text: str) -> tuple[str, ...]:
    return ("bash", "-c", text)


def archive(folder: Path) -> None:
    with zipfile.ZipFile(folder / "app.pyz", "w") as app:
        app.write(folder / "app" / "__main__.py", "__main__.py")
        app.write(folder / "app" / "part.py", "part.py")


def with_shebang(folder: Path) -> None:
    archive(folder)
    (folder / "app.pyz").write_bytes(b"#!/usr/bin/env python\n" + (folder / "app.pyz").read_bytes())
    (folder / "app.pyz").chmod(0o755)


def bytecode(folder: Path) -> None:
    import py_compile

    py_compile.compile(str(folder / "train.py"), str(folder / "train.pyc"))
    (folder / "train.py").unlink()


def link(folder: Path) -> None:
    (folder / "start.py").symlink_to("real/train.py")


def executable(folder: Path) -> None:
    (folder / "train.py").chmod(0o755)


def zipped_library(folder: Path) -> None:
    with zipfile.ZipFile(folder / "library.zip", "w") as library:
        library.writestr("zipped.py", "WORD = 'from a zip'")


def own_environment(folder: Path) -> None:
    import venv

    venv.create(folder / "own", with_pip=False)
    packages = next((folder / "own").glob("lib/python3*/site-packages"))
    (packages / "editable.pth").write_text(str(folder / "source"))


APP = {
    "app/__main__.py": "import sys, part\nprint(part.WORD, sys.argv[1:], __name__, __package__)\nsys.exit(4)\n",
    "app/part.py": "WORD = 'part'\n",
}
PACKAGE = {
    "package/__init__.py": "print('package')\n",
    "package/__main__.py": "from . import part\nimport sys\nprint(part.WORD, sys.argv[1:], __package__)\n",
    "package/part.py": "WORD = 'part'\nif __name__ == '__main__':\n    print('part itself', __package__)\n",
}
CLOSES_ALL = """
import os, time
os.closerange(3, 256)
files = [open(f"note-{number}", "w") for number in range(12)]
for beat in range(5):
    time.sleep(0.3)
    for file in files:
        file.write(f"{beat}")
        file.flush()
for file in files:
    file.close()
print({open(file.name).read() for file in files})
"""
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open("result", "w") as file:
            file.write("trained")
    os._exit(0)
os.wait()
while not os.path.exists("result"):
    time.sleep(0.02)
print("done")
"""
DIES_WITH_PARENT = """
import ctypes, subprocess, sys
child = subprocess.run([sys.executable, "-c", "print('child')"], preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 15))
print(child.returncode)
"""
REEXEC = """
import os, sys
if "AGAIN" not in os.environ:
    os.environ["AGAIN"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])
print("again", sys.argv, __name__)
"""
THREADS = """
import threading, time
def leaves(): raise SystemExit(5)
def fails(): raise ValueError("in a thread")
threading.excepthook = lambda args: print("hook", args.exc_value)
for work in (leaves, fails):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
threading.Thread(target=time.sleep, args=(300,), daemon=True).start()
print("end")
"""
POOLS = """
import concurrent.futures, multiprocessing
class Point:
    def __init__(self, x): self.x = x
def double(point): return Point(2 * point.x)
if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
            print(method, [each.x for each in pool.map(double, map(Point, range(3)))])
"""
ASYNC = """
import asyncio, signal
async def main():
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGUSR1, done.set)
    process = await asyncio.create_subprocess_shell("kill -USR1 $PPID; echo sent", stdout=asyncio.subprocess.PIPE)
    print((await process.communicate())[0], process.returncode)
    await asyncio.wait_for(done.wait(), 10)
asyncio.run(main())
"""
SAVES_AT_EXIT = """
import atexit, time
def slow():
    time.sleep(1)
    print("uploaded")
atexit.register(print, "first registered, last called")
atexit.register(slow)
raise ValueError("after training")
"""
LOOKS_AT_ITSELF = '''
"""About it."""
import __main__, inspect, pickle, runpy, sys, typing
class Config:
    rate: float = 0.1
print(__doc__, __main__.Config is Config, pickle.loads(pickle.dumps(Config)) is Config)
print(inspect.getsource(Config), typing.get_type_hints(Config), sys.modules["__main__"].__file__ == __file__)
print(sorted(runpy.run_path("other.py"))[-1])
'''
LOOKS_BELOW = """
import inspect, os, runpy, sys
def names(): return [os.path.basename(each.filename) for each in inspect.stack()]
print(names(), names.__module__)
if __name__ == "__main__":
    runpy.run_path(__file__)
"""
PRINTS_IN_COLORS = """
import sys
def hook(kind, error, trace): print(f"\\x1b[1;31m{kind.__name__}\\x1b[0m: {error}\\x00", file=sys.stderr)
sys.excepthook = hook
raise ValueError("bad batch")
"""
GROUPS = """
def load(index):
    raise ValueError(f"shard {index}")
errors = []
for index in range(2):
    try:
        load(index)
    except ValueError as error:
        errors.append(error)
raise ExceptionGroup("loading", errors)
"""
REDIRECTS = """
import os, sys
log = os.open("log", os.O_WRONLY | os.O_CREAT)
os.dup2(log, 1)
print("into the log")
sys.stdout.close()
sys.stderr.write(open("log").read())
"""

LOOKS_FOR_OTHERS = """
import guard
import numpy
print(guard.FOUND, numpy.__name__)
"""
SETS_A_VARIABLE_FIRST = """
import os
os.environ["NPY_DISABLE_CPU_FEATURES"] = " ".join(("AVX512_SPR", "AVX512_ICL", "X86_V4", "X86_V3"))
import numpy
from numpy._core import _multiarray_umath as core
print([core.__cpu_features__[name] for name in core.__cpu_dispatch__])
"""
FAILS_TO_LOAD = """
import sys
if hasattr(sys, "loaded"):
    raise ImportError("cannot load module more than once per process")
sys.loaded = True
raise OSError("libopenblas.so.0: cannot open shared object file")
"""
HAS_ANOTHERS_LIBRARY = """
def later():
    import sklearn.datasets
import threadpoolctl
print(threadpoolctl.WORD)
"""
READS_ITS_COMMAND = """
import os, pathlib
words = pathlib.Path("/proc/self/cmdline").read_text().split("\\0")
print(words[words.index("train.py"):])
lines = pathlib.Path("/proc/self/environ").read_bytes().split(b"\\0")
print([line for line in lines if line.startswith(b"OWN=")])
"""

HABITS = (
    Habit("closes all descriptors, then trains", CLOSES_ALL),
    Habit("becomes a daemon and waits for its result", DAEMON),
    Habit("starts children that die with it", DIES_WITH_PARENT),
    Habit("starts itself again with another environment", REEXEC, ("python", "train.py", "--lr", "1")),
    Habit(
        "dumps its threads after a time limit",
        "import faulthandler, time\nfaulthandler.dump_traceback_later(0.3, exit=True)\ntime.sleep(60)",
        same_output=False,
    ),
    Habit("leaves by os._exit", "import os\nprint('trained')\nos._exit(0)"),
    Habit("leaves by os._exit with a code", "import os\nprint('failed')\nos._exit(7)"),
    Habit("leaves threads behind, of which some fail", THREADS),
    Habit("runs pools of every kind", POOLS),
    Habit("is asynchronous", ASYNC),
    Habit("takes time at its exit after a failure", SAVES_AT_EXIT),
    Habit("leaves with a text", "import sys\nsys.exit('no data: 数据')"),
    Habit("leaves with a large number", "import sys\nsys.exit(300)"),
    Habit("aborts", "import os\nos.abort()", same_output=False),
    Habit("is ended by its own alarm", "import signal, time\nsignal.alarm(1)\ntime.sleep(60)"),
    Habit("interrupts itself", "raise KeyboardInterrupt"),
    Habit("raises a group of exceptions", GROUPS),
    Habit("has a syntax error", "import os\nprint('x'\n"),
    Habit("imports what is not there", "import not_installed"),
    Habit(
        "recurses without end",
        "import sys\nsys.setrecursionlimit(120)\ndef again(): again()\nagain()",
        same_output=False,
    ),
    Habit("draws a bar without a newline", "for step in range(50): print(f'\\rstep {step}', end='', flush=True)"),
    Habit("prints a line of 10 MB", "print('x' * 10_000_000)\nprint('end')"),
    Habit("prints bytes that are no text", "import sys\nsys.stdout.buffer.write(bytes(range(256)) * 3)"),
    Habit("prints in GBK", "print('训练')", environment={"PYTHONIOENCODING": "gbk"}),
    Habit("reads its input", "import sys\nprint(repr(sys.stdin.read()))\ninput('go on? ')"),
    Habit("sends its output elsewhere", REDIRECTS),
    Habit("looks at itself", LOOKS_AT_ITSELF, files={"other.py": "Z_LAST = 1\n"}),
    Habit(
        "looks for a profiler among the built-in names",
        "print(hasattr(__builtins__, 'print'), hasattr(__builtins__, 'profile'), __builtins__.max(1, 2))",
    ),
    Habit("looks at the calls below it", LOOKS_BELOW),
    Habit("looks at the calls below it, as a module", LOOKS_BELOW, ("python", "-m", "train")),
    Habit("prints its errors in colors", PRINTS_IN_COLORS),
    Habit(
        "saves beside where it stands",
        "import os\nos.mkdir('runs')\nos.chdir('runs')\nopen('a.pt', 'w').close()\nprint(os.listdir('../runs'))",
    ),
    Habit(
        "is started by a link",
        command=("python", "start.py"),
        files={
            "real/train.py": "import beside\nprint(beside.WORD, __file__.rsplit('/')[-1])",
            "real/beside.py": "WORD = 'beside'",
        },
        make=link,
    ),
    Habit(
        "has a name that needs quotes",
        command=("python", "模型 v2.py", "a b"),
        files={"模型 v2.py": "import sys\nprint(sys.argv)"},
    ),
    Habit("has no suffix", command=("python", "train"), files={"train": "print(__name__)"}),
    Habit(
        "is in Latin-1 with lines of Windows",
        command=("python", "old.py"),
        files={"old.py": "# -*- coding: utf-8 -*-\r\nprint('caf\u00e9')\r\n"},
    ),
    Habit(
        "is an executable with a first line",
        "#!/usr/bin/env -S python -u\nprint('run')",
        ("./train.py",),
        make=executable,
    ),
    Habit("is an archive", command=("python", "app.pyz", "--flag"), files=APP, make=archive),
    Habit("is an archive with a first line", command=("./app.pyz", "--flag"), files=APP, make=with_shebang),
    Habit("is a folder", command=("python", "app", "--flag"), files=APP),
    Habit("is bytecode", "print('compiled', __name__)", ("python", "train.pyc"), make=bytecode),
    Habit("is a package", command=("python", "-m", "package", "--flag"), files=PACKAGE),
    Habit("is a module of a package", command=("python", "-m", "package.part"), files=PACKAGE),
    Habit(
        "is a module that is not there", command=("python", "-m", "package.absent"), files=PACKAGE, same_output=False
    ),
    Habit("is on the command line", command=("python", "-c", "import sys; print(sys.argv)", "a", "b")),
    Habit("comes through a pipe", "import sys\nprint('piped', sys.argv)", shell("cat train.py | python - a b")),
    Habit("comes as a document in a script", command=shell("python - a <<'END'\nimport sys\nprint(sys.argv)\nEND")),
    Habit("is nothing", command=("python", "-")),
    Habit(
        "is run by the profiler",
        "print('profiled', __name__)",
        ("python", "-m", "cProfile", "-o", "out.prof", "train.py"),
    ),
    Habit(
        "is tested",
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.fail()\nunittest.main()",
        same_output=False,
    ),
    Habit("times its imports", "print('x')", ("python", "-X", "importtime", "train.py"), same_output=False),
    Habit("runs without assertions", "assert False\nprint(__debug__)", ("python", "-O", "train.py")),
    Habit(
        "runs without assertions by its environment",
        "assert False\nprint(__debug__)",
        environment={"PYTHONOPTIMIZE": "1"},
    ),
    Habit("makes errors of warnings", "import warnings\nwarnings.warn('old')", environment={"PYTHONWARNINGS": "error"}),
    Habit(
        "is safe from its own folder",
        command=("python", "part/train.py"),
        environment={"PYTHONSAFEPATH": "1"},
        files={"part/train.py": "import beside", "part/beside.py": ""},
    ),
    Habit(
        "has a start-up file for people",
        "print('x')",
        files={"startup.py": "print('startup')"},
        environment={"PYTHONSTARTUP": "startup.py"},
    ),
    Habit(
        "has a path on which modules of the standard library are hidden",
        "print('x')",
        files={"lib/selectors.py": "raise ImportError('not that one')"},
        environment={"PYTHONPATH": "{here}/lib"},
    ),
    Habit(
        "has a sitecustomize",
        "print(CUSTOM)",
        files={"site/sitecustomize.py": "import builtins\nbuiltins.CUSTOM = 1"},
        environment={"PYTHONPATH": "{here}/site"},
    ),
    Habit(
        "has its libraries in a zip",
        "import zipped\nprint(zipped.WORD)",
        make=zipped_library,
        environment={"PYTHONPATH": "{here}/library.zip"},
    ),
    Habit(
        "has an environment of its own with an editable package",
        "import edited, sys\nprint(edited.WORD, sys.prefix[-4:])",
        ("{here}/own/bin/python", "train.py"),
        files={"source/edited.py": "WORD = 'edited'"},
        make=own_environment,
    ),
    Habit(
        "has a module named like one of the standard library",
        "import tokenize, statistics\nprint(tokenize.WORD, statistics.WORD)",
        files={"tokenize.py": "WORD = 'own'", "statistics.py": "WORD = 'own'"},
    ),
    Habit(
        "has a path that begins where it starts",
        "import beside, sys\nprint(beside.WORD, [part for part in sys.path if part.endswith('src')])",
        files={"src/beside.py": "WORD = 'src'"},
        environment={"PYTHONPATH": "src:./absent"},
    ),
    Habit(
        "imports a library that has to come before another",
        LOOKS_FOR_OTHERS,
        files={"guard.py": "import sys\nFOUND = sorted({'numpy', 'torch'} & set(sys.modules))"},
    ),
    Habit(
        "is in a package that imports a library that has to come before another",
        command=("python", "-m", "ordered.train"),
        files={
            "ordered/__init__.py": "import guard",
            "ordered/train.py": "import numpy, guard\nprint(guard.FOUND, numpy.__name__)",
            "guard.py": "import sys\nFOUND = sorted({'numpy', 'torch'} & set(sys.modules))",
        },
    ),
    Habit("sets a variable before it imports what reads it", SETS_A_VARIABLE_FIRST, environment={"PYTHONWARNINGS": ""}),
    Habit(
        "cannot import its library",
        "import numpy\nprint(numpy.array([1]))",
        environment={"PYTHONPATH": "{here}/broken", "PYTHONDONTWRITEBYTECODE": "1"},
        files={"broken/numpy/__init__.py": FAILS_TO_LOAD},
    ),
    Habit(
        "has a library by the name of one that another library brings",
        HAS_ANOTHERS_LIBRARY,
        files={"threadpoolctl.py": "WORD = 'own'"},
    ),
    Habit("leaves no bytecode", "import sys\nprint(sys.dont_write_bytecode)", ("python", "-B", "train.py")),
    Habit(
        "reads its own command line", READS_ITS_COMMAND, ("python", "train.py", "--lr", "1"), environment={"OWN": "1"}
    ),
    Habit("is in the C locale", "import os\nprint(os.environ.get('LC_CTYPE'))", environment={"LANG": ""}),
    Habit("looks for a locale", command=shell("env | grep ^LC_; true"), environment={"LANG": ""}),
    Habit("has a variable of 100 KB", "import os\nprint(len(os.environ['LONG']))", environment={"LONG": "x" * 100_000}),
)
