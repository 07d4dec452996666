"""User and group ids that this runtime can really give.

Root's sandbox has every id. An ordinary user's has one: any other id is shown through a nested user namespace.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cotenant_local.runtime.isolation.capabilities import CAPABILITIES, available


@dataclass(frozen=True)
class IdMap:
    """The ids of the namespace that the runtime lives in."""

    uids: tuple[tuple[int, int], ...]
    gids: tuple[tuple[int, int], ...]
    may_set_groups: bool
    capabilities: frozenset[str] = frozenset(CAPABILITIES)

    @classmethod
    def here(cls) -> "IdMap":
        may_set_groups = Path("/proc/self/setgroups").read_text().strip() == "allow"
        return cls(_ranges("uid_map"), _ranges("gid_map"), may_set_groups, available())

    def has(self, uid: int, gid: int) -> bool:
        return _inside(uid, self.uids) and _inside(gid, self.gids)

    @property
    def single(self) -> bool:
        """True if there is only one user id, which owns every file."""
        return sum(count for _, count in self.uids) == 1

    def groups(self, asked: Iterable[int]) -> tuple[list[int], list[int]]:
        """Groups that can be given, and those that cannot."""
        given = [gid for gid in asked if self.may_set_groups and _inside(gid, self.gids)]
        return given, [gid for gid in asked if gid not in given]


def _ranges(name: str) -> tuple[tuple[int, int], ...]:
    lines = (line.split() for line in Path(f"/proc/self/{name}").read_text().splitlines())
    return tuple((int(first), int(count)) for first, _, count in lines)


def _inside(number: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(first <= number < first + count for first, count in ranges)
