"""What ranks of a pod leave in its shared memory."""

from pathlib import Path

from cotenant_worker.host.shared_memory import SharedMemory


def test_what_ranks_have_left_is_removed_before_others_start(tmp_path: Path) -> None:
    memory = SharedMemory(tmp_path)
    (tmp_path / "of Ray").touch()
    memory.begin()
    (tmp_path / "000000_locals").touch()
    (tmp_path / "data set").mkdir()
    (tmp_path / "link").symlink_to("of Ray")
    for _ in range(2):
        memory.begin()
        assert {path.name for path in tmp_path.iterdir()} == {"of Ray", "data set", "link"}


def test_a_machine_without_shared_memory_has_nothing_to_remove(tmp_path: Path) -> None:
    SharedMemory(tmp_path / "absent").begin()
