"""Connects inside a sandbox's network: `python dial.py PID PORT DESCRIPTOR`, PID being the sandbox's first process.

A process of its own: one that has threads, as pytest with gRPC has, may not enter a user namespace.
"""

import os
import sys

from cotenant_local.runtime.inside import pods, syscalls


def main() -> None:
    first, port, answer = map(int, sys.argv[1:])
    if os.geteuid() != 0:
        syscalls.setns(os.open(f"/proc/{first}/ns/user", os.O_RDONLY), syscalls.CLONE_NEWUSER, "user")
    pods.connect_in_network({"namespace": f"/proc/{first}/ns/net", "port": port}, [answer])


main()
