"""chown without effect, like fakeroot: for a program with one user id, changing an owner succeeds.

If a cluster has one user id, the kubelet cannot give a volume to the user that a pod runs as, and the pod never
starts. Nor does it need to: that pod sees every file as its own. A seccomp filter answers the four calls with success.
"""

import os
import platform
import sys
from collections.abc import Sequence

from cotenant_local.runtime.inside import seccomp
from cotenant_local.runtime.isolation.id_map import IdMap

# machine: chown, fchown, lchown, fchownat (as far as it has them)
CALLS = {"x86_64": (92, 93, 94, 260), "aarch64": (54, 55)}
SUCCESS = seccomp.ERRNO | 0


def wrap(command: Sequence[str], ids: IdMap) -> list[str]:
    """The command line with the filter in front; unchanged if there are several users."""
    if not ids.single:
        return list(command)
    return [sys.executable, "-m", "cotenant_local.node.fake_chown", *command]


def program(machine: str) -> bytes:
    """The filter as the kernel reads it. A machine whose call numbers are not known here gets one that allows all."""
    lines: list[seccomp.Line] = []
    if machine in CALLS:
        audit, _, _ = seccomp.MACHINES[machine]
        lines += [(seccomp.LOAD, 0, 0, seccomp.ARCHITECTURE), (seccomp.EQUAL, 1, 0, audit)]
        lines += [(seccomp.RETURN, 0, 0, seccomp.ALLOW), (seccomp.LOAD, 0, 0, seccomp.NUMBER)]
        for number in CALLS[machine]:
            lines += [(seccomp.EQUAL, 0, 1, number), (seccomp.RETURN, 0, 0, SUCCESS)]
    lines.append((seccomp.RETURN, 0, 0, seccomp.ALLOW))
    return seccomp.assemble(lines)


def main() -> None:
    seccomp.apply(program(platform.machine()))
    os.execv(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
