"""Replaces Ray's dashboard agent and runtime-environment agent: does nothing until it is killed.

Run by path with `python -I -S`, so it must import nothing else. `lean_node` has the reason.
"""

import signal

if __name__ == "__main__":
    signal.pause()
