"""`python -m cotenant_local.programs [PACKAGE [SHA256]]`: the programs in the cache, built or taken from a package.

Needs nothing but the standard library: set-up runs it beside the making of the Python environment.
"""

import signal
import sys

from cotenant_local.host.errors import LocalError
from cotenant_local.programs import build, package


def main() -> int:
    """Returns 0 when the programs are there, 1 with one sentence when they are not."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the compiler ends with it
    source, sha256, *_ = (*sys.argv[1:], "", "")
    try:
        if source:
            package.read(source, sha256 or None)
        else:
            build.programs()
    except LocalError as error:
        print(f"cotenant: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
