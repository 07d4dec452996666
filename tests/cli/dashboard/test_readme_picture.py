"""The README shows the dashboard as it is. A browser is needed only to take the picture again."""

from __future__ import annotations

from tests.cli.dashboard.readme_picture import OLD, PICTURE, digest_of_page, stamp_of


async def test_the_picture_of_the_readme_is_of_the_page_as_it_is() -> None:
    assert stamp_of(PICTURE.read_bytes()) == await digest_of_page(), OLD
