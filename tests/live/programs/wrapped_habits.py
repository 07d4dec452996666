"""Habits of the scripts and tools that programs are started by, and of programs that start others: a table like
`habits`.
"""

from __future__ import annotations

from tests.live.programs.habits import Habit, shell

FOR_EACH_GPU = """
import os, subprocess, sys
words = "import os; print(os.environ['CUDA_VISIBLE_DEVICES'], flush=True)"
for gpu in "01":
    child = subprocess.Popen([sys.executable, "-c", words], env={**os.environ, "CUDA_VISIBLE_DEVICES": gpu})
    print(child.wait(), flush=True)
"""
BARRIER = """
import os, subprocess, sys, time
if len(sys.argv) == 1:
    waits = [subprocess.Popen([sys.executable, __file__, str(rank)]) for rank in (1, 2)]
    time.sleep(1)
    open("saved", "w").close()
    print([child.wait() for child in waits])
else:
    while not os.path.exists("saved"):
        time.sleep(0.05)
"""
LOKY = """
from joblib import Parallel, delayed
class Point:
    def __init__(self, x): self.x = x
def double(point): return Point(2 * point.x)
print([each.x for each in Parallel(2)(delayed(double)(Point(x)) for x in range(4))])
"""

WRAPPED_HABITS = (
    Habit(
        "is a target of a Makefile",
        "print('train')\nraise SystemExit(3)",
        ("make", "train"),
        files={"Makefile": "train:\n\tcd . && python train.py\n"},
    ),
    Habit(
        "is cleaned up after by its script",
        "print('train')\nraise SystemExit(5)",
        shell("set -euo pipefail; trap 'echo cleaned up after $?' EXIT; python train.py | cat; echo never"),
    ),
    Habit(
        "has a limit of time that ends it",
        "import time\nprint('train', flush=True)\ntime.sleep(60)",
        ("timeout", "5", "python", "train.py"),
    ),
    Habit("has a limit of time that it keeps", "raise SystemExit(5)", ("timeout", "1h", "python", "train.py")),
    Habit(
        "is started by tools that change how it runs",
        "import os\nprint(os.nice(0) > 4, os.sched_getaffinity(0))",
        ("stdbuf", "-oL", "nice", "-n", "5", "taskset", "-c", "0", "python", "train.py"),
    ),
    Habit("is timed", "raise SystemExit(5)", shell("TIMEFORMAT=timed; time python train.py")),
    Habit(
        "is run once for each line of a list",
        "import sys\nprint(sys.argv)\nraise SystemExit(int(sys.argv[1]))",
        shell("printf '0\\n2\\n0\\n' | xargs -n1 -P1 python train.py"),
    ),
    Habit(
        "has a terminal of its own",
        "import sys\nprint(sys.stdout.isatty())\nraise SystemExit(6)",
        ("script", "-qec", "python train.py", "/dev/null"),
    ),
    Habit(
        "is waited for in the background",
        "print('train')\nraise SystemExit(4)",
        shell("nohup python train.py > log 2>&1 & wait $!; code=$?; cat log; exit $code"),
    ),
    Habit("starts a trainer for each GPU", FOR_EACH_GPU),
    Habit("meets its helpers by a file", BARRIER),
    Habit("runs a pool of joblib's", LOKY),
)
