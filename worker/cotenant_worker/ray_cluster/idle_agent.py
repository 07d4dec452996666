"""Stands where Ray's dashboard agent and runtime-environment agent would: lives until it is killed, and does nothing.

Run by path with `python -I -S`, so it must import nothing else. The reason is in `lean_node`.
"""

import signal

if __name__ == "__main__":
    signal.pause()
