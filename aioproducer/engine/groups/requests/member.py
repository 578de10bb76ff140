"""The identity of a member of a group, as its requests name it. No I/O."""

from __future__ import annotations

from typing import Any, NamedTuple

from aioproducer.engine.groups.assignors.member import NO_GENERATION


class Membership(NamedTuple):
    """A member of a group."""

    group_id: str
    member_id: str = ""
    """Given by the coordinator; empty before."""
    generation: int = NO_GENERATION
    """Grows with each rebalance; -1: the member is in none. With epochs it is the member's."""
    instance_id: str | None = None
    """The id of a static member (KIP-345)."""
    has_epochs: bool = False
    """True: by the protocol of KIP-848."""

    def fields(self) -> dict[str, Any]:
        """The fields of a request."""
        return {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "generation_id": self.generation,
            "group_instance_id": self.instance_id,
        }
