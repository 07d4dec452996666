"""`python -m cotenant_agent`."""

import sys

from cotenant_agent.main import main

if __name__ == "__main__":
    sys.exit(main())
