"""Renders templates. Every value from outside is escaped, and a missing name is an error."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

FOLDER: Final = Path(__file__).parent
ASSETS: Final = ("dashboard.css", "dashboard.js", "icon.svg")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters.update(when=when, hours=hours, figure=figure)
    environment.globals.update(asset=asset_address)
    return environment


def markup(template: str, context: Mapping[str, Any]) -> str:
    return _environment().get_template(template).render(context)


def when(moment: float | None) -> Markup:
    """A time for people. It is UTC in the document; a script shows the reader's own zone."""
    if not moment:
        return Markup("")
    at = datetime.fromtimestamp(moment, UTC)
    shown = at.strftime("%Y-%m-%d %H:%M UTC")
    return Markup('<time datetime="{}">{}</time>').format(at.strftime("%Y-%m-%dT%H:%M:%SZ"), shown)


def hours(amount: float) -> str:
    """Hours with as many digits as matter: `0`, `0.003`, `2.5`, `1,204`."""
    if not amount:
        return "0"
    if amount < 1:
        return f"{amount:.3f}" if amount < 0.1 else f"{amount:.2f}"
    return f"{amount:,.1f}" if amount < 100 else f"{amount:,.0f}"


def figure(value: object) -> object:
    """A metric with six digits; a word as it is."""
    return f"{value:.6g}" if isinstance(value, float) else value


@cache
def asset(name: str) -> bytes:
    """The bytes of a file for browsers. Raises KeyError for an unknown file."""
    if name not in ASSETS:
        raise KeyError(name)
    return (FOLDER / "assets" / name).read_bytes()


def asset_address(name: str) -> str:
    """The address of an asset. It changes with the content, so browsers may cache it."""
    return f"/assets/{name}?v={hashlib.sha256(asset(name)).hexdigest()[:12]}"
