"""The state of a consumer, for health checks. No I/O."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from aioproducer.model import TopicPartition

__all__ = ["ConsumerHealth"]

UNUSABLE: Final = {
    "not started": "the consumer was not started",
    "closed": "the consumer is closed; make a new one",
    "forked": "the consumer was made in another process (before a fork); make one in each process",
}
"""The reason that a consumer in this state reads nothing."""


@dataclass(frozen=True, slots=True)
class ConsumerHealth:
    """The state of a consumer at one point in time. Ages are in seconds before that point."""

    client_id: str
    group_id: str
    state: str
    """``not started``; ``joining`` the group; ``joined``; ``rebalancing``: the member waits for
    others, or gives up partitions; ``silent``: the coordinator has not answered within the session
    timeout; ``failed``: every read raises an error; ``closed``; ``forked``: it belongs to another
    process."""
    problems: tuple[str, ...] = ()
    """The problems, one line each."""
    member_id: str = ""
    generation: int = -1
    """The group's generation; with KIP-848 the member's epoch."""
    partitions: int = 0
    """The partitions that the group has assigned to this member."""
    partitions_without_position: int = 0
    """The partitions whose offsets are being looked up."""
    paused_partitions: int = 0
    rebalances: int = 0
    """The number of assignments so far."""
    heartbeat_age: float | None = None
    """Seconds since the coordinator's last answer; None: the member is not in the group."""
    oldest_record: tuple[TopicPartition, int] | None = None
    """The partition and offset of the record that has been in processing the longest."""
    oldest_record_age: float | None = None
    lag: int | None = None
    """The number of records after the positions, from the last response of each leader; None:
    unknown."""
    group_protocol: str | None = None
    """``classic`` or ``consumer``: the protocol of the member; None: it is not chosen yet."""

    @property
    def is_live(self) -> bool:
        """False if only a new consumer would help: it is closed, failed, or in a forked process.
        ``reason`` says why."""
        return self.state not in ("closed", "failed", "forked")

    @property
    def is_ready(self) -> bool:
        """True if the member is in the group, and the group's coordinator answers."""
        return self.state in ("joined", "rebalancing")

    @property
    def is_degraded(self) -> bool:
        """True if there are problems but records are still read."""
        return self.is_ready and bool(self.problems)

    @property
    def reason(self) -> str:
        """The problems in one line; empty if there are none."""
        return "; ".join(self.problems)

    def as_dict(self) -> dict[str, Any]:
        """All fields and properties, ready for JSON."""
        properties = ("is_live", "is_ready", "is_degraded", "reason")
        oldest = self.oldest_record
        return {
            **asdict(self),
            "problems": list(self.problems),
            "oldest_record": None if oldest is None else [*oldest[0], oldest[1]],
            **{name: getattr(self, name) for name in properties},
        }
