"""Which capabilities a container keeps."""

import pytest

from cotenant_local.runtime.isolation import id_map


def test_capabilities_are_the_default_set_less_dropped_plus_added() -> None:
    assert id_map.capabilities([], [], privileged=False) == sorted(id_map.NUMBERS[name] for name in id_map.DEFAULT)
    assert id_map.capabilities(["CAP_NET_ADMIN"], ["all"], privileged=False) == [12]
    assert len(id_map.capabilities([], [], privileged=True)) == len(id_map.CAPABILITIES)
    few = frozenset({"CHOWN"})
    assert id_map.capabilities(["ALL"], [], privileged=False, have=few) == [0]
    with pytest.raises(id_map.UnknownCapabilityError, match="does not have the capabilities SYS_TIME"):
        id_map.capabilities(["SYS_TIME"], [], privileged=False, have=few)
