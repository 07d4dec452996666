"""Which jobs are alike."""

from __future__ import annotations

import pytest

from cotenant.core.runtimes.templates import groups_of, template_of
from tests.support.clusters import make_job


@pytest.mark.parametrize(
    ("key", "template"),
    [
        ("red/train", "red/train"),
        ("red/train-7", "red/train"),
        ("red/train-resnet50-7", "red/train-resnet50"),
        ("red/sweep-20260112-0815", "red/sweep"),
        ("red/sweep-3f9c2a71", "red/sweep"),
        ("red/nightly-x7k2p", "red/nightly"),
        ("red/nightly-facade", "red/nightly-facade"),
        ("red/llama.v2", "red/llama.v2"),
        ("red/a-1-2-3-4", "red/a-1"),
        ("red/-1", "red/-1"),
        ("red/2026", "red/2026"),
    ],
)
def test_a_template_is_the_name_without_what_makes_it_unique(key: str, template: str) -> None:
    assert template_of(key) == template


def test_a_jobs_groups_go_from_narrow_to_wide() -> None:
    job = make_job("train-7", queue="red", workers=2, gpus=4, user="ada")
    assert groups_of(job) == (
        "template of user|red|red/train|8|ada",
        "template|red|red/train",
        "user|red|8|ada",
        "size|red|8",
        "queue|red",
    )
