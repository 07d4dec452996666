"""Documents that nobody wrote: good ones with something changed at random. Parser and API server must say the same."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from cotenant.api.conversion.decode import check
from tests.api.changed_documents import changed, originals

if TYPE_CHECKING:
    from tests.live.api.conftest import Server

pytestmark = pytest.mark.cluster

TRIES = 500


@pytest.mark.parametrize("seed", range(3))
def test_parser_and_api_server_agree_on_documents_that_nobody_wrote(seed: int, server: Server) -> None:
    chance = random.Random(seed)
    good = originals()
    taken = 0
    for _ in range(TRIES):
        body = changed(chance.choice(good), chance)
        answer = server.dry_run(body, body["kind"])
        problems = [str(problem) for problem in check(json.loads(json.dumps(body))).problems]
        assert (answer.status == 201) == (not problems), (body["spec"], answer.message, problems)
        taken += answer.status == 201
    assert 0.05 < taken / TRIES < 0.95, "the changes are too wild, or too tame, to say anything"
