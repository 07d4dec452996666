"""Names of clusters, which are folders."""

import pytest

from cotenant_local.host import folders
from cotenant_local.host.errors import LocalError


@pytest.mark.parametrize("name", ["", "-a", "A", "a/b", "..", "a" * 41])
def test_a_name_that_is_no_folder_and_no_label_is_refused(name: str) -> None:
    with pytest.raises(LocalError, match=r"use 1 to 40 lower-case letters, digits and dashes"):
        folders.cluster(name)
