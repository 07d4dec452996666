"""One user id or a range of them: what an ordinary user is told."""

from pathlib import Path

import pytest

from cotenant_local.host import user_ids


def test_a_range_is_of_no_use_where_containers_could_not_read_their_image(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "closed").mkdir(mode=0o750)
    assert user_ids.closed_to_others([tmp_path / "open", tmp_path / "absent"]) is None
    assert user_ids.closed_to_others([tmp_path / "open", tmp_path / "closed"]) == tmp_path / "closed"


@pytest.mark.parametrize(
    ("helpers", "ranges", "said"),
    [
        ((), "", "newuidmap and newgidmap are not installed (on Debian and Ubuntu: sudo apt-get install uidmap)"),
        (user_ids.HELPERS, "", "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 "),
        (user_ids.HELPERS, "somebody:1:2\n", "has no range in"),
    ],
)
def test_who_has_one_id_only_is_told_what_would_change_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helpers: tuple[str, ...], ranges: str, said: str
) -> None:
    for helper in helpers:
        (tmp_path / helper).touch(mode=0o755)
    (tmp_path / "ranges").write_text(ranges)
    monkeypatch.setattr(user_ids, "RANGES", (tmp_path / "ranges",))
    monkeypatch.setattr(user_ids, "_path", lambda: str(tmp_path))
    assert said in user_ids.why_one.__wrapped__()
