"""What is wrong with a text that is not YAML, in words: the usual mistakes, each with what to write instead."""

from __future__ import annotations

import re
from typing import Final

_TEMPLATE: Final = (
    "a template ({{ … }}) is left in; fill it in first, for example by `helm template`, and check what comes out"
)
_MISTAKES: Final = (
    (r"\{\{", r"a key must be|expected", _TEMPLATE),
    (r"\t", r"'\\t'|tab", "a tab is in the indentation, where YAML takes spaces only; write two spaces for it"),
    (r"", r"appears twice", "write it once: of two equal keys one would be lost"),
    (r":\s\S*.*:\s", r"mapping values are not allowed", "a text with `: ` in it needs quotes around it"),
    (r"", r"mapping values are not allowed", "the line stands deeper than the one above; put the fields of"
     " one object below each other in one column"),
    (r"", r"did not find expected|expected <block end>", "the line does not stand in the column of the fields above it;"
     " put fields of one object below each other in one column"),
    (r"", r"could not find expected ':'", "a field is a name, a colon and a space: write `name: value`"),
    (r"", r"expected ',' or|stream end", "a bracket or a quote is opened and not closed; close it"),
    (r"", r"quoted scalar|unexpected end of stream", "a quote is opened and not closed; close it"),
    (r"", r"undefined alias", "a value that begins with * needs quotes around it"),
    (r"", r"cannot start any token", "a value that begins with @, ` or % needs quotes around it"),
    (r"", r"constructor for the tag", "a value that begins with ! needs quotes around it"),
    (r"", r"not a number that JSON has|is too large", "write a number that is finite, or a text in quotes"),
)  # fmt: skip
"""(pattern in the line, pattern in the parser's message, what it is and what to write)."""


def in_words(complaint: str, line: str) -> str:
    """The parser's message about a line, with what to write instead if that is known."""
    for text, problem, words in _MISTAKES:
        if re.search(text, line) and re.search(problem, complaint):
            return f"{complaint}; {words}"
    return complaint
