"""`python -P -m cotenant_worker`: PID 1 of a worker pod."""

import os
import sys

# PYTHONPATH is the program's. A `selectors.py` in it may be what the program wants; process 1 wants its own.
_theirs = {os.path.abspath(part) for part in os.environ.get("PYTHONPATH", "").split(":") if part}
# It may also name the folders of our packages, as in a checkout: `PYTHONPATH=operator:worker`.
_ours = ("cotenant", "cotenant_worker")
sys.path[:] = [
    part for part in sys.path if part not in _theirs or any(os.path.isdir(os.path.join(part, name)) for name in _ours)
]

from cotenant_worker.host.termination_signals import hold  # noqa: E402 (the path comes before)

hold()

from cotenant_worker.pid1.entry import main  # noqa: E402 (what takes time comes after it)

sys.exit(main())
