"""A decision capsule: all inputs of one decision, and its plan. A replay gives the same lines.

The plan is a function of snapshot and policy. If another program comes to another plan, the lines that differ show
where. A capsule names jobs, nodes and users of the whole cluster, so it is for administrators.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from cotenant.core.model.plan import Plan
from cotenant.core.policy import DEFAULT, Policy
from cotenant.core.scheduling.scheduler import schedule
from cotenant.core.snapshot.snapshot import Snapshot
from cotenant.decision_log.capsule_file import FORMAT, VERSION, checked, packed, unpacked
from cotenant.decision_log.codec import CodecError, canonical, decode, encode
from cotenant.decision_log.digest import SnapshotDigests

_SETTINGS: Final = tuple(one.name for one in fields(Policy) if one.name != "placer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capsule:
    snapshot: Snapshot
    policy: Policy
    plan: tuple[str, ...]
    """`plan_lines` of what was decided."""
    program: str = ""
    """Version of the program that decided."""

    @classmethod
    def of(cls, snapshot: Snapshot, policy: Policy, plan: Plan, program: str = "") -> Capsule:
        return cls(
            snapshot=replace(snapshot, accounting=None), policy=policy, plan=tuple(plan_lines(plan)), program=program
        )

    def to_document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "program": self.program,
            "digest": SnapshotDigests().of(self.snapshot),
            "policy": {name: encode(getattr(self.policy, name)) for name in _SETTINGS},
            "snapshot": encode(self.snapshot),
            "plan": list(self.plan),
        }

    def to_bytes(self) -> bytes:
        """Compressed. Equal capsules give equal bytes."""
        return packed(self.to_document())

    @classmethod
    def from_bytes(cls, data: bytes) -> Capsule:
        """Capsule of a file, compressed or not. Raises CodecError."""
        try:
            document = json.loads(unpacked(data))
        except (ValueError, OSError) as error:
            raise CodecError(f"this is no decision capsule: {error}") from None
        return cls.from_document(document)

    @classmethod
    def from_document(cls, document: Any) -> Capsule:
        """Raises CodecError, also if the snapshot differs from the recorded one."""
        document = checked(document)
        settings = document.get("policy") or {}
        known: dict[str, Any] = {name: int(settings[name]) for name in _SETTINGS if name in settings}
        policy = replace(DEFAULT, **known)
        snapshot = decode(Snapshot, document.get("snapshot"))
        if SnapshotDigests().of(snapshot) != document.get("digest"):
            raise CodecError("the snapshot in it is not the one that was recorded: its digest is another")
        plan, program = decode(tuple[str, ...], document.get("plan")), str(document.get("program", ""))
        return cls(snapshot=snapshot, policy=policy, plan=plan, program=program)


def plan_lines(plan: Plan) -> Iterator[str]:
    """A plan as text: a line for each action in order, each verdict and each promised place."""
    yield from (f"{type(action).__name__} {canonical(action)}" for action in plan.actions)
    yield from (f"Verdict {canonical(plan.verdicts[key])}" for key in sorted(plan.verdicts))
    yield from (f"Nomination {key} {canonical(plan.nominations[key])}" for key in sorted(plan.nominations))


def replayed(capsule: Capsule) -> tuple[str, ...]:
    """The plan of this program for the same inputs."""
    return tuple(plan_lines(schedule(capsule.snapshot, capsule.policy)))


def differences(capsule: Capsule, plan: tuple[str, ...]) -> tuple[str, ...]:
    """Lines that only the recorded plan has (`-`), and lines that only the new one has (`+`); empty if both are
    equal.
    """
    recorded, found = set(capsule.plan), set(plan)
    missing = [f"- {line}" for line in capsule.plan if line not in found]
    more = [f"+ {line}" for line in plan if line not in recorded]
    if not missing and not more and plan != capsule.plan:
        return ("the same lines in another order",)
    return (*missing, *more)
