"""What a text that is not YAML is told, and the lines on which fields stand."""

from __future__ import annotations

import pytest

from cotenant.api.conversion.yaml_mistakes import in_words
from cotenant.api.conversion.yaml_text import read_documents

TEXT = """\
# a comment

spec:
  queue: a
  resources: {nvidia.com/gpu: 1}
  runtime:
    env:
      - name: A
      -
        name: B
"""


@pytest.mark.parametrize(
    ("complaint", "line", "words"),
    [
        ("found character '\\t' that cannot start any token", "\tgpu: 1", "write two spaces for it"),
        ("a key must be a text, not a list or an object", "  a: {{ .Values.a }}", "fill it in first"),
        ("mapping values are not allowed here", "  gpu: note: two", "needs quotes around it"),
        ("mapping values are not allowed here", "    workers: 2", "in one column"),
        ("found undefined alias 'team'", "  queue: *team", "needs quotes around it"),
        ("found unexpected end of stream", "", "close it"),
    ],
)
def test_a_usual_mistake_is_named_with_what_to_write(complaint: str, line: str, words: str) -> None:
    assert in_words(complaint, line).startswith(f"{complaint}; ")
    assert words in in_words(complaint, line)


def test_an_unusual_one_stays_in_the_words_of_the_parser() -> None:
    assert in_words("found something odd", "a: 1") == "found something odd"


@pytest.mark.parametrize(
    ("field", "line"),
    [
        ("", 3),
        ("metadata.name", 3),
        ("spec", 3),
        ("spec.queue", 4),
        ("spec.gpu", 3),
        ("spec.resources.nvidia.com/gpu", 5),
        ("spec.runtime.env", 7),
        ("spec.runtime.env[0].name", 8),
        ("spec.runtime.env[1]", 10),
        ("spec.runtime.env[1].value", 10),
        ("spec.runtime.env[7]", 7),
    ],
)
def test_a_field_has_its_line_and_a_missing_one_that_of_what_is_around_it(field: str, line: int) -> None:
    (document,) = read_documents(TEXT)
    assert document.line_of(field) == line


def test_items_that_a_merge_brings_are_documents_too() -> None:
    text = "base: &base {items: [{a: 1}, {a: 2}]}\n<<: *base\nkind: List\n"
    assert [document.body for document in read_documents(text)] == [{"a": 1}, {"a": 2}]


def test_items_of_a_list_of_jobs_are_documents_with_lines_of_their_own() -> None:
    text = "kind: TrainingJobList\nitems:\n- kind: TrainingJob\n  spec: 1\n- kind: TrainingJob\n  spec: 2\n"
    documents = list(read_documents(text))
    assert [document.body["spec"] for document in documents] == [1, 2]
    assert [document.line_of("spec") for document in documents] == [4, 6]
