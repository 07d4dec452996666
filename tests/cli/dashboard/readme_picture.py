"""The picture of the README: a photograph of the dashboard's overview that carries a digest of what it shows."""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from pathlib import Path
from typing import Final

from cotenant.dashboard.access.sessions import Viewer
from cotenant.dashboard.markup import asset, markup
from cotenant.dashboard.pages import PAGES
from cotenant.dashboard.updates import Drawing
from cotenant.dashboard.views.wish import Wish
from tests.cli.dashboard.played_cluster import NOW, played

PICTURE: Final = Path(__file__).parents[3] / "docs" / "dashboard.png"
OLD: Final = "docs/dashboard.png shows an older page: python -m tests.live.cli.dashboard.pictures docs"
KEY: Final = b"page"


async def digest_of_page() -> str:
    """Digest of the overview's markup and style, at a moment that is always the same."""
    viewer = Viewer(played(), "alice")
    drawing = Drawing(viewer, PAGES[0], Wish(), NOW.timestamp)
    await drawing.settle(10)
    page = {"pages": PAGES, "page": PAGES[0], "wish": Wish(), "user": viewer.user, "home": viewer.namespace}
    shown = markup("page.html", page | {"main": drawing.draw(), "is_whole": True})
    await viewer.close()
    return hashlib.sha256(re.sub(r"\?v=\w+", "", shown).encode() + asset("dashboard.css")).hexdigest()


def stamp(path: Path, digest: str) -> None:
    """Write the digest into a chunk of text, behind the header of the picture."""
    png = path.read_bytes()
    body = b"tEXt" + KEY + b"\0" + digest.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    path.write_bytes(png[:33] + chunk + png[33:])


def stamp_of(png: bytes) -> str:
    begin = png.find(b"tEXt" + KEY + b"\0")
    return png[begin + 5 + len(KEY) :][:64].decode() if begin > 0 else ""
