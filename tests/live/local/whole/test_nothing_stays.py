"""However a cluster ends, no process of it and no mount stays. Each case ends a cluster of its own the hard way."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cotenant_local.cluster import lifecycle, ownership, spec
from cotenant_local.controlplane import components, control_socket
from cotenant_local.host import cgroup_claims
from cotenant_local.host.cluster_folder import ClusterFolder
from cotenant_local.host.errors import LocalError
from cotenant_local.host.procfs import descendants, is_stopped
from tests.live.waiting import wait_until

pytestmark = pytest.mark.cluster


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Clusters of this test are in a state folder of their own, with a path longer than a socket address."""
    state = tmp_path / ("long" * 12) / "state"
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    yield state
    for name in lifecycle.known():
        lifecycle.down(name)


def running(pids: list[int]) -> list[int]:
    def alive(pid: int) -> bool:
        try:
            return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return False

    return [pid for pid in pids if alive(pid)]


def outer_process(state: ClusterFolder) -> int:
    """`unshare`, the parent of the sandbox's first process."""
    inner = control_socket.peer(state.control)
    after_name = Path(f"/proc/{inner}/stat").read_text().rpartition(")")[2].split()
    return int(after_name[1])


def assert_nothing_stays(pids: list[int], state: ClusterFolder, others: Sequence[str] = ()) -> None:
    wait_until(lambda: not running(pids), f"all of {len(pids)} processes to end")
    assert str(state.path) not in Path("/proc/self/mounts").read_text()
    assert lifecycle.running() == list(others)


@pytest.mark.parametrize(
    ("who", "how", "nodes"),
    [("outer", signal.SIGKILL, 1), ("first", signal.SIGKILL, 0), ("first", signal.SIGTERM, 0)],
    ids=str,
)
def test_nothing_stays_when_the_sandbox_is_killed(home: Path, who: str, how: signal.Signals, nodes: int) -> None:
    cluster = lifecycle.up("killed", spec.uniform(nodes, 0, "", ""))
    outer, first = outer_process(cluster.state), control_socket.peer(cluster.state.control)
    pids = descendants(outer)
    assert len(pids) >= 10 + 4 * nodes  # the sandbox's own two, eight components, and per node two and its three
    os.kill({"outer": outer, "first": first}[who], how)
    assert_nothing_stays(pids, cluster.state)
    cgroup_claims.sweep()  # what the next `up` or `down` of any cluster does
    assert list(cgroup_claims.ROOT.glob("**/cotenant-killed*")) == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=lambda value: value.name)
@pytest.mark.parametrize("moment", ["starting etcd", "API server ready"])
def test_nothing_stays_when_up_is_interrupted(home: Path, how: signal.Signals, moment: str) -> None:
    # `env` restores SIGINT: if the tests run in the background of a shell, it is ignored, and their children would
    # inherit that.
    command = [sys.executable, "-m", "cotenant", "local", "up", "--name", "interrupted"]
    command = ["env", "--default-signal=INT", *command]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True) as up:
        assert up.stderr is not None
        for line in up.stderr:
            if moment in line:
                break
        pids = [pid for pid in descendants(up.pid) if pid != up.pid]
        assert pids
        up.send_signal(how)
        up.stderr.read()
    assert up.returncode == {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[how]
    assert_nothing_stays(pids, ClusterFolder(home / "cotenant" / "local" / "interrupted"))
    lifecycle.down("interrupted")
    assert lifecycle.known() == []


def test_an_attached_cluster_ends_with_the_process_that_started_it(home: Path) -> None:
    program = (
        "from cotenant_local.cluster import lifecycle, spec\n"
        "cluster = lifecycle.up('attached', spec.uniform(0, 0, '', ''), attached=True)\n"
        "print('up', flush=True)\n"
        "input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        pids = [pid for pid in descendants(parent.pid) if pid != parent.pid]
        parent.kill()
    assert_nothing_stays(pids, ClusterFolder(home / "cotenant" / "local" / "attached"))


def test_down_removes_everything_that_up_made(home: Path) -> None:
    cluster = lifecycle.up("short", spec.uniform(1, 0, "", ""))
    pids = descendants(outer_process(cluster.state))
    assert lifecycle.down("short")
    assert running(pids) == []
    assert list((home / "cotenant" / "local").iterdir()) == []
    assert not lifecycle.down("short")


def test_a_cluster_whose_first_process_is_stopped_says_so_and_can_be_ended(home: Path) -> None:
    cluster = lifecycle.up("stopped", spec.uniform(0, 0, "", ""))
    pids = descendants(outer_process(cluster.state))
    first = control_socket.peer(cluster.state.control)
    os.kill(first, signal.SIGSTOP)
    wait_until(lambda: is_stopped(first), "the first process to stop")
    with pytest.raises(LocalError, match=rf"is stopped by a signal; it goes on with: kill -CONT {first}$"):
        lifecycle.status("stopped")
    assert lifecycle.down("stopped")
    assert_nothing_stays(pids, cluster.state)
    assert lifecycle.known() == []


def test_a_disk_with_no_room_is_told_before_anything_starts(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "NEEDED_BYTES", 1 << 60)
    with pytest.raises(LocalError, match=r"MiB left; a cluster needs .* or put its state on another disk"):
        lifecycle.up("full", spec.uniform(0, 0, "", ""))
    assert lifecycle.known() == []


def test_the_death_of_a_component_while_starting_is_told_with_its_last_words(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        (ClusterFolder(home / "cotenant" / "local" / "broken").config / "audit-policy.json").write_text("nonsense")

    monkeypatch.setattr(components, "write_configuration", broken)
    with pytest.raises(LocalError, match=r"kube-apiserver died: exit code 1; its log ends:(.|\n)*audit"):
        lifecycle.up("broken", spec.uniform(0, 0, "", ""))
    assert lifecycle.known() == []
