"""With one user id a change of owner succeeds and does nothing, for the kubelet alone."""

from cotenant_local.node import fake_chown
from cotenant_local.runtime.isolation.id_map import IdMap

ONE = IdMap(uids=((0, 1),), gids=((0, 1),), may_set_groups=False)
RANGE = IdMap(uids=((0, 1), (1, 65535)), gids=((0, 1), (1, 65535)), may_set_groups=True)


def test_only_a_kubelet_with_one_user_id_lives_in_the_world_of_one_user() -> None:
    assert fake_chown.wrap(["kubelet", "-v"], RANGE) == ["kubelet", "-v"]
    assert fake_chown.wrap(["kubelet", "-v"], ONE)[-3:] == ["cotenant_local.node.fake_chown", "kubelet", "-v"]
