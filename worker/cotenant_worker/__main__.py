"""`python -P -m cotenant_worker`: PID 1 of a worker pod."""

import sys

from cotenant_worker.host.termination_signals import hold

hold()

from cotenant_worker.pid1.entry import main  # noqa: E402 (what takes time comes after it)

sys.exit(main())
