"""Pods: network, names, namespaces, and that nothing is left when they are gone. As root and as an ordinary user."""

import json
from pathlib import Path

import grpc
import pytest

from cotenant_local.runtime.interface import proto
from tests.live.local.runtime.sandbox import NODE_ADDRESS, Kubelet, wait_for


@pytest.mark.sandbox
def test_pods_have_addresses_of_their_own_and_reach_each_other_and_the_node(node: Kubelet) -> None:
    first, second = node.pod("net-a"), node.pod("net-b")
    server = node.start(first, "python3", "-m", "http.server", "8000")
    fetch = "import time,urllib.request as u,sys\nfor i in range(100):\n"
    fetch += " try: print(u.urlopen(sys.argv[1]).status); break\n except OSError: time.sleep(.05)"
    script = f"python3 -c '{fetch}' http://{node.address(first)}:8000"
    assert node.output(second, script) == "200"
    assert node.address(first) != node.address(second)
    assert f"default via 169.254.1.1 dev eth0 src {node.address(second)}" in node.output(second, "ip route")
    assert node.output(second, f"ip route get {NODE_ADDRESS}").startswith(f"{NODE_ADDRESS} via 169.254.1.1")
    node.stop(server)


@pytest.mark.sandbox
def test_a_pod_has_its_host_name_and_the_name_servers_it_was_given(node: Kubelet) -> None:
    dns = proto.pb.DNSConfig(servers=["10.96.0.10"], searches=["default.svc.cluster.local"], options=["ndots:5"])
    pod = node.pod("names", dns_config=dns)
    said = node.output(pod, "hostname; cat /etc/hostname /etc/resolv.conf; getent hosts names | cut -d' ' -f1")
    wanted = ["names", "names", "nameserver 10.96.0.10", "search default.svc.cluster.local", "options ndots:5"]
    assert said.splitlines() == [*wanted, node.address(pod)]


@pytest.mark.sandbox
def test_containers_of_a_pod_share_memory_and_network_but_not_processes(node: Kubelet) -> None:
    pod = node.pod("shares")
    sleeper = node.start(pod, "/bin/sh", "-c", "echo hello > /dev/shm/word; exec sleep 1000", name="sleeper")
    said = node.output(pod, "cat /dev/shm/word; df -m /dev/shm | tail -1 | awk '{print $2}'; pgrep -c sleep; true")
    assert said.splitlines() == ["hello", "64", "0"]
    node.stop(sleeper)


@pytest.mark.sandbox
def test_a_pod_that_shares_processes_sees_and_outlives_them(node: Kubelet) -> None:
    pod = node.pod("together", namespaces={"pid": proto.pb.POD})
    together = {"namespace_options": proto.pb.NamespaceOption(pid=proto.pb.POD)}
    sleeper = node.start(pod, "/bin/sh", "-c", "setsid sleep 1234 & exec sleep 1000", security=together)

    def sleeping() -> str:
        return node.output(pod, "pgrep -x sleep | wc -l", security=together)

    wait_for(lambda: sleeping() == "2", "both of its programs to run")
    node.stop(sleeper)
    assert sleeping() == "0"  # what it left behind, too


@pytest.mark.sandbox
def test_programs_that_end_at_once_in_a_shared_pid_namespace_are_not_lost(node: Kubelet) -> None:
    pod = node.pod("quick", namespaces={"pid": proto.pb.POD})
    together = {"namespace_options": proto.pb.NamespaceOption(pid=proto.pb.POD)}
    ended = [node.finish(node.start(pod, "true", name=f"quick{i}", security=together)) for i in range(20)]
    assert {(status.exit_code, status.reason) for status in ended} == {(0, "Completed")}


@pytest.mark.sandbox
@pytest.mark.parametrize(
    ("sysctl", "value", "refusal"),
    [
        ("net.ipv4.ip_local_port_range", "20000\t30000", ""),
        ("vm.swappiness", "10", "sysctl vm.swappiness is not a pod's own"),
        ("net.ipv4.no_such", "1", "sysctl net.ipv4.no_such=1 cannot be set: No such file or directory"),
    ],
)
def test_sysctls_of_the_pod_are_applied_and_others_refused(
    node: Kubelet, sysctl: str, value: str, refusal: str
) -> None:
    linux = proto.pb.LinuxPodSandboxConfig(sysctls={sysctl: value})
    if refusal:
        with pytest.raises(grpc.RpcError, match=refusal):
            node.pod("sysctl", linux=linux)
        return
    pod = node.pod("sysctl", linux=linux)
    assert node.output(pod, f"cat /proc/sys/{sysctl.replace('.', '/')}") == value


@pytest.mark.sandbox
def test_a_host_port_leads_from_the_node_to_the_pod_and_is_given_once(node: Kubelet) -> None:
    mapping = proto.pb.PortMapping(container_port=80, host_port=8099)
    pod = node.pod("hostport", port_mappings=[mapping])
    answer = "HTTP/1.0 200 OK\\r\\n\\r\\nhello"
    server = "import socket as s;l=s.create_server(('',80))\nwhile 1:c=l.accept()[0];c.recv(9999);"
    server += f"c.send(b'{answer}');c.close()"
    container = node.start(pod, "python3", "-c", server)
    other = node.pod("caller")
    get = f"for i in 1 2 3 4 5 6 7 8 9; do curl -sf {NODE_ADDRESS}:8099 && break; sleep 0.2; done"
    assert node.output(other, get) == "hello"
    with pytest.raises(grpc.RpcError, match="hostPort 8099/tcp is taken by pod hostport"):
        node.pod("second", port_mappings=[mapping])
    node.stop(container)
    node.remove_pod(pod)
    node.remove_pod(node.pod("second", port_mappings=[mapping]))


@pytest.mark.sandbox
def test_pods_of_the_nodes_network_have_no_address_of_their_own(node: Kubelet) -> None:
    pod = node.pod("hostnet", namespaces={"network": proto.pb.NODE, "pid": proto.pb.NODE, "ipc": proto.pb.NODE})
    every = {"namespace_options": proto.pb.NamespaceOption(network=2, pid=2, ipc=2)}
    assert node.address(pod) == ""
    assert NODE_ADDRESS in node.output(pod, "ip -4 addr show lo; test -d /proc/1", security=every)


@pytest.mark.sandbox
def test_a_removed_pod_leaves_no_process_no_link_no_mount_and_no_file(node: Kubelet) -> None:
    def remains() -> tuple[list[str], list[str], list[str]]:
        first = node.first_process
        machine = Path("/proc/self/mounts").read_text().splitlines()  # others may mount things meanwhile
        mounts = set(Path(f"/proc/{first}/mounts").read_text().splitlines()) - set(machine)
        links = Path(f"/proc/{first}/net/dev").read_text().splitlines()[2:]
        files = [*(node.folder / "state").glob("*/*")]
        return sorted(map(str, files)), sorted(line.split(":")[0] for line in links), sorted(mounts)

    before = remains()
    pod = node.pod("leaver")
    node.start(pod, "/bin/sh", "-c", "trap '' TERM; setsid sleep 1000 & sleep 1000")
    assert remains() != before
    node.remove_pod(pod)
    node.remove_pod(pod)
    assert remains() == before


@pytest.mark.sandbox
def test_stopping_unknown_pods_and_containers_is_no_error_and_asking_for_them_is_not_found(node: Kubelet) -> None:
    node.remove_pod("nobody")
    node.stop("nobody")
    with pytest.raises(grpc.RpcError, match="container nobody is not known") as caught:
        node.status("nobody")
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


@pytest.mark.sandbox
def test_a_cdi_device_brings_its_environment_mounts_and_device_nodes(node: Kubelet) -> None:
    shared = node.shared("cdi")
    (shared / "library").write_text("driver\n")
    edits = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void", "FROM_DEVICE=yes"],
        "mounts": [{"hostPath": str(shared / "library"), "containerPath": "/opt/library", "options": ["ro", "bind"]}],
        "deviceNodes": [{"path": "/dev/slot0", "hostPath": "/dev/zero"}],
    }
    document = {"cdiVersion": "0.6.0", "kind": "example.com/slot", "devices": [{"name": "0", "containerEdits": edits}]}
    (node.folder / "cdi").mkdir(exist_ok=True)
    (node.folder / "cdi" / "slot.json").write_text(json.dumps(document))
    script = "echo $FROM_DEVICE; cat /opt/library; head -c 3 /dev/slot0 | od -An -tx1; touch /opt/library 2>&1 | wc -l"
    pod, envs = node.pod("cdi"), [proto.pb.KeyValue(key="FROM_DEVICE", value=b"tenant")]
    device = proto.pb.CDIDevice(name="example.com/slot=0")
    assert node.output(pod, script, CDI_devices=[device], envs=envs).splitlines() == ["yes", "driver", " 00 00 00", "1"]
    with pytest.raises(
        grpc.RpcError, match=r"CDI device example.com/slot=7 is in no spec of .*; known: example.com/slot=0"
    ):
        node.create(pod, "true", CDI_devices=[proto.pb.CDIDevice(name="example.com/slot=7")])


@pytest.mark.sandbox
def test_a_device_plugins_device_appears_and_a_missing_one_is_refused(node: Kubelet) -> None:
    pod = node.pod("devices")
    found = proto.pb.Device(host_path="/dev/full", container_path="/dev/gpu0", permissions="rw")
    assert node.output(pod, "echo x > /dev/gpu0 2>/dev/null || echo full", devices=[found]) == "full"
    missing = proto.pb.Device(host_path="/dev/no-such", container_path="/dev/gpu0")
    with pytest.raises(grpc.RpcError, match="device /dev/no-such is not on this node"):
        node.create(pod, "true", devices=[missing])


@pytest.mark.sandbox
def test_sandboxes_and_containers_are_listed_by_state_and_label(node: Kubelet) -> None:
    pb = proto.pb
    pod = node.pod("listed", labels={"app": "listed"})
    ran = node.start(pod, "true", labels={"kind": "short"})
    node.finish(ran)
    made = node.create(pod, "true", name="second", labels={"kind": "never"})

    def listed(**chosen: object) -> list[str]:
        containers = pb.ListContainersRequest(filter=pb.ContainerFilter(pod_sandbox_id=pod, **chosen))
        return [container.id for container in node.runtime.ListContainers(containers).containers]

    assert set(listed()) == {ran, made}
    assert listed(state=pb.ContainerStateValue(state=pb.CONTAINER_CREATED)) == [made]
    assert listed(label_selector={"kind": "short"}) == [ran]
    pods = pb.ListPodSandboxRequest(filter=pb.PodSandboxFilter(label_selector={"app": "listed"}))
    assert [item.metadata.name for item in node.runtime.ListPodSandbox(pods).items] == ["listed"]


@pytest.mark.sandbox
def test_statistics_grow_with_what_a_container_does(node: Kubelet) -> None:
    pb = proto.pb
    pod = node.pod("busy")
    work = "x=bytearray(50<<20)\nimport time\nend=time.process_time()+0.3\nwhile time.process_time()<end: pass\n"
    container = node.start(pod, "python3", "-c", work + "print('done',flush=True)\ntime.sleep(1000)")
    wait_for(lambda: any("done" in line for line in node.log(container)), "the work")
    stats = node.runtime.ContainerStats(pb.ContainerStatsRequest(container_id=container)).stats
    assert stats.cpu.usage_core_nano_seconds.value >= 300_000_000
    assert stats.memory.working_set_bytes.value >= 50 << 20
    whole = node.runtime.PodSandboxStats(pb.PodSandboxStatsRequest(pod_sandbox_id=pod)).stats.linux
    assert whole.process.process_count.value == 1
    assert [one.attributes.id for one in whole.containers] == [container]
    node.stop(container)
