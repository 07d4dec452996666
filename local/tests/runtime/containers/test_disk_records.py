"""Records that survive a restart: whole ones are read again, half-made ones are removed."""

from pathlib import Path

from cotenant_local.runtime.containers import disk_records


class Text:
    """A message of one text."""

    def __init__(self) -> None:
        self.text = b""

    def SerializeToString(self) -> bytes:  # noqa: N802 – the name that protobuf gives it
        return self.text

    def ParseFromString(self, text: bytes) -> None:  # noqa: N802
        self.text = text


def test_whole_records_are_read_again_and_what_a_crash_left_is_removed(tmp_path: Path) -> None:
    for name in ("b", "a"):
        message = Text()
        message.text = name.encode()
        disk_records.create(tmp_path / name, message, {"pid": ord(name)})
    (tmp_path / "half" / "closed").mkdir(parents=True)
    (tmp_path / "half" / "closed" / "file").touch()
    (tmp_path / "half" / "closed").chmod(0)
    found = [(folder.name, message.text, meta) for folder, message, meta in disk_records.each(tmp_path, Text)]
    assert found == [("a", b"a", {"pid": 97}), ("b", b"b", {"pid": 98})]
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a", "b"]


def test_a_document_is_replaced_as_a_whole_and_a_broken_one_is_none(tmp_path: Path) -> None:
    path = tmp_path / "meta.json"
    assert disk_records.read(path) is None
    disk_records.write(path, {"a": 1})
    disk_records.write(path, {"a": 2})
    assert (disk_records.read(path), list(tmp_path.iterdir())) == ({"a": 2}, [path])
    path.write_text('{"a":')
    assert disk_records.read(path) is None
