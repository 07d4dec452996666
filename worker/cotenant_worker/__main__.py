"""`python -P -m cotenant_worker`: PID 1 of a worker pod."""

import sys

from cotenant_worker.pid1.entry import main

sys.exit(main())
