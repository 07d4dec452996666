"""Secrets on disk: the owner's alone, and whole, also after a start that was interrupted."""

from pathlib import Path

from cotenant_local.host.private_files import write_secret


def test_a_secret_is_the_owners_alone_and_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "ca.key"
    (tmp_path / "ca.key.unfinished").write_bytes(b"ha")  # of a start that was killed
    write_secret(path, b"one")
    path.chmod(0o644)
    write_secret(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", 0o600)
    assert list(tmp_path.iterdir()) == [path]
