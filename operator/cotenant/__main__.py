"""`python -m cotenant …`: the same as the `cotenant` program, for environments whose scripts are not on PATH."""

import sys

from cotenant.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
