"""Documents as YAML for a person: a text of several lines becomes a block.

PyYAML writes a text with a tab, or with spaces at the end of a line, in double quotes on one line. YAML allows both in
a block, so every script stays readable.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from cotenant.contract.decoding.plain_text import printable


def dump(document: Mapping[str, Any], *, allow_unicode: bool) -> str:
    """The YAML text. `allow_unicode`: letters beyond ASCII stay, inside and outside of blocks."""
    return str(yaml.dump(dict(document), Dumper=_BlockDumper, sort_keys=False, allow_unicode=allow_unicode))


class _BlockDumper(yaml.SafeDumper):
    def analyze_scalar(self, scalar: str) -> Any:
        analysis = super().analyze_scalar(scalar)
        if fits_a_block(scalar):
            analysis.allow_block = True
        return analysis


def fits_a_block(text: str) -> bool:
    """True if the text has several lines that a terminal shows as they are.

    A text that starts with spaces does not fit, because a block takes them for its indentation.
    """
    return "\n" in text and text[0] not in " \n" and all(line == printable(line) for line in _lines(text))


def _lines(text: str) -> list[str]:
    return text.replace("\t", " ").split("\n")


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if fits_a_block(text) else None)


_BlockDumper.add_representer(str, _text)
