"""The places of a cluster's folder: each has one of its own, and only the owner may look into them."""

from pathlib import Path

from cotenant_local.host.cluster_folder import ClusterFolder, write_secret


def test_no_two_things_share_a_place() -> None:
    folder = ClusterFolder(Path("/c"))
    places = {name: getattr(folder, name) for name, kind in vars(ClusterFolder).items() if isinstance(kind, property)}
    places["node-1"] = folder.node("node-1")
    assert {name: str(place) for name, place in places.items()} == {
        "pki": "/c/pki",
        "config": "/c/config",
        "logs": "/c/logs",
        "etcd": "/c/etcd",
        "kubeconfig": "/c/kubeconfig",
        "lock": "/c/lock",
        "volumes": "/c/volumes",
        "control": "/c/control.sock",
        "api_faults": "/c/api-faults.json",
        "catalogue": "/c/images.json",
        "plan": "/c/plan.json",
        "node-1": "/c/nodes/node-1",
    }


def test_folders_are_made_for_the_owner_alone_and_kept_ones_stay(tmp_path: Path) -> None:
    folder = ClusterFolder(tmp_path / "c")
    folder.prepare()
    (folder.etcd / "db").touch()
    folder.prepare()
    made = [folder.path, *(entry for entry in folder.path.iterdir())]
    assert sorted(entry.name for entry in made) == ["c", "config", "etcd", "logs", "pki", "volumes"]
    assert {entry.stat().st_mode & 0o777 for entry in made} == {0o700}
    assert (folder.etcd / "db").exists()


def test_a_secret_is_the_owners_alone_and_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "ca.key"
    (tmp_path / "ca.key.unfinished").write_bytes(b"ha")  # of a start that was killed
    write_secret(path, b"one")
    path.chmod(0o644)
    write_secret(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o600)
    assert list(tmp_path.iterdir()) == [path]
