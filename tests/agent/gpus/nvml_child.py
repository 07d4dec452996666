"""Runs the agent's NVML source in a process of its own, on whatever libnvidia-ml.so.1 the loader finds first.

One request per line on stdin: `inventory`, `a minute passes` (the next inventory looks again), `samples`,
`limit UUID CGROUP`, `reset UUID` or `xid`; on stdout the answers as JSON, one per line.
"""

import dataclasses
import json
import os
import sys
from pathlib import Path

from cotenant_agent.gpus.nvml import NvmlSource
from cotenant_agent.gpus.readings import AskedLimit, GpuSourceError


def answer(source: NvmlSource, request: str) -> object:
    if request == "inventory":
        return dataclasses.asdict(source.inventory())
    if request == "a minute passes":
        source._looked_at = -float("inf")
        return None
    if request == "samples":
        return [dataclasses.asdict(sample) for sample in source.samples()]
    if request.startswith("limit "):
        _, uuid, cgroup = request.split()
        found = source.memory_limit(AskedLimit("pod", uuid, cgroup))
        return [source.can_read_limits(), found and dataclasses.asdict(found)]
    if request.startswith("reset "):
        return source.reset(request.split()[1])
    xid = source.wait_for_xid(0.05)
    return None if xid is None else {"uuid": xid.uuid, "code": xid.code}


def main() -> None:
    try:
        source = NvmlSource(Path(os.environ["PCI_DEVICES"]))
    except GpuSourceError as error:
        print(json.dumps({"refused": str(error)}), flush=True)
        return
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            said = answer(source, line.strip())
        except GpuSourceError as error:
            said = {"refused": str(error)}
        print(json.dumps(said), flush=True)


main()
