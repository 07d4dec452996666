"""Which capabilities a container keeps."""

import pytest

from cotenant_local.runtime.isolation import capabilities


def test_capabilities_are_the_default_set_less_dropped_plus_added() -> None:
    assert capabilities.kept_numbers([], [], privileged=False) == sorted(
        capabilities.NUMBERS[name] for name in capabilities.DEFAULT
    )
    assert capabilities.kept_numbers(["CAP_NET_ADMIN"], ["all"], privileged=False) == [12]
    assert len(capabilities.kept_numbers([], [], privileged=True)) == len(capabilities.CAPABILITIES)
    few = frozenset({"CHOWN"})
    assert capabilities.kept_numbers(["ALL"], [], privileged=False, have=few) == [0]
    with pytest.raises(capabilities.UnknownCapabilityError, match="does not have the capabilities SYS_TIME"):
        capabilities.kept_numbers(["SYS_TIME"], [], privileged=False, have=few)
