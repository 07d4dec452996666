"""What an attempt needs beside its pods. Pure."""

from __future__ import annotations

import pytest

from cotenant.controller.manifests.attempt import Attempt
from tests.controller.builders import attempt
from tests.controller.manifests.expected import SERVERS, served


@pytest.mark.parametrize(
    ("made", "token", "names_"),
    [
        (attempt(("n1", 1)), False, False),
        (attempt(("n1", 2)), True, False),
        (attempt(("n1", 1), ("n2", 1)), True, True),
        (served(1, SERVERS, ("n1", 1)), True, True),
    ],
    ids=["one rank", "two ranks in a pod", "two pods", "one rank and a server"],
)
def test_pods_get_a_token_and_names_as_far_as_they_have_somebody_to_talk_to(
    made: Attempt, token: bool, names_: bool
) -> None:
    assert (made.needs_token, made.needs_names) == (token, names_)
