"""Limits hold where there are cgroups: for root in either version, for others in a part of version 2 of their own."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant_local.host import cgroup_claims
from cotenant_local.runtime.interface import proto
from tests.live.local.runtime import sandbox
from tests.live.local.runtime.conftest import ordinary_user, why_not

pytestmark = pytest.mark.sandbox


@pytest.fixture(scope="module")
def node() -> Iterator[sandbox.Kubelet]:
    user = None if os.geteuid() == 0 else ordinary_user(ranged=False)
    if reason := why_not(user):
        pytest.skip(reason)
    claim = cgroup_claims.claim(f"limits-{os.getpid()}")
    if claim is None:
        pytest.skip(f"no cgroups: {cgroup_claims.why_none()}")
    with tempfile.TemporaryDirectory(prefix="cri") as folder:
        Path(folder).chmod(0o755)
        kubelet = sandbox.run(Path(folder), user, cgroup_parent=f"{claim.parent}/node")
        yield kubelet
        kubelet.channel.close()
        kubelet.process.kill()
        kubelet.process.wait()
    os.close(claim.descriptor)
    cgroup_claims.sweep()
    assert list(cgroup_claims.ROOT.glob(f"**/{Path(claim.parent).name}")) == []


def limits(**amounts: int) -> Any:
    return proto.pb.LinuxContainerConfig(resources=proto.pb.LinuxContainerResources(**amounts))


def test_who_takes_more_memory_than_allowed_is_killed_and_told_so(node: sandbox.Kubelet) -> None:
    pod = node.pod("eats")
    take = "print(len(bytearray(200 << 20)))"
    status = node.finish(node.start(pod, "python3", "-c", take, linux=limits(memory_limit_in_bytes=64 << 20)))
    assert (status.reason, status.exit_code) == ("OOMKilled", 137)
    allowed = node.finish(
        node.start(pod, "python3", "-c", take, name="may", linux=limits(memory_limit_in_bytes=1 << 30))
    )
    assert allowed.reason == "Completed"
    node.remove_pod(pod)


def test_who_takes_more_processors_than_allowed_waits(node: sandbox.Kubelet) -> None:
    pod = node.pod("burns")
    burn = "import time\nwhile time.process_time() < 0.2: pass"
    read = "cat /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/cpu/cpu.stat 2>/dev/null | grep nr_throttled"
    tenth = limits(cpu_quota=10_000, cpu_period=100_000)
    said = node.output(pod, f"python3 -c '{burn}'; {read}", linux=tenth)
    assert int(said.split()[1]) > 0
    node.remove_pod(pod)
