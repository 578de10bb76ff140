"""The options of a consumer, in addition to those for connections and for reading.

Names and defaults are those of ``org.apache.kafka.clients.consumer.ConsumerConfig``;
``kafka_default`` marks where a default differs and the meaning says why.
"""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypedDict

from aioproducer.config.kinds import (
    INT_MAX,
    Boolean,
    Choice,
    Milliseconds,
    Nullable,
    Text,
    UnacceptableError,
)
from aioproducer.config.options import Group, Importance, option, options_of
from aioproducer.errors import ConfigError

__all__ = [
    "CONSUMER_OPTIONS",
    "AssignorOption",
    "ConsumerKeywords",
    "ConsumerOptions",
    "GroupProtocolOption",
]

AssignorOption = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]
GroupProtocolOption = Literal["classic", "consumer"]


class Assignors(Choice):
    """One assignor, or several in the order of preference."""

    def accept(self, value: object) -> Any:
        """The name, or the names. Raises :class:`UnacceptableError` for others."""
        if not isinstance(value, list | tuple):
            return super().accept(value)
        found = tuple(dict.fromkeys(super(Assignors, self).accept(each) for each in value))
        if not found:
            raise UnacceptableError(self.wording)
        return found if len(found) > 1 else found[0]

    @property
    def wording(self) -> str:
        """The values that an option can have."""
        return f"{super().wording}, or a list of them"


class ConsumerKeywords(TypedDict, total=False):
    """The options as keywords."""

    group_protocol: GroupProtocolOption | None
    group_instance_id: str | None
    group_remote_assignor: str | None
    partition_assignment_strategy: AssignorOption | Sequence[AssignorOption]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    auto_commit: bool
    auto_commit_interval_ms: int


_OF_ONE_PROTOCOL: Final[Mapping[str, GroupProtocolOption]] = {
    "session_timeout_ms": "classic",
    "heartbeat_interval_ms": "classic",
    "partition_assignment_strategy": "classic",
    "group_remote_assignor": "consumer",
}
"""The options that belong to one protocol."""


@dataclass(frozen=True, slots=True, init=False)
class ConsumerOptions:
    """The options with their defaults.

    Raises:
        ConfigError: a value is of the wrong type or out of range, an assignor is one of the other
            protocol, two options belong to different protocols, or heartbeats are too far apart.
    """

    group_protocol: GroupProtocolOption | None = option(
        Nullable(Choice(GroupProtocolOption)),
        None,
        Group.READING,
        Importance.HIGH,
        kafka_default="classic",
    )
    """`consumer`: the coordinator assigns the partitions (KIP-848, Kafka 4.0), and partitions that
    do not move are read without interruption. `classic`: the members assign them themselves; works
    with every broker. None chooses `consumer`, which Kafka recommends from 4.3 on (KIP-1274). If
    the brokers are older than Kafka 4.0, or members of the group use `classic`, it chooses
    `classic`, with the strategy of these members."""

    group_instance_id: str | None = option(
        Nullable(Text(empty=False)), None, Group.READING, Importance.MEDIUM
    )
    """The id of a static member (KIP-345): it keeps its partitions if it returns within
    `session_timeout_ms`, so a restart moves no partitions."""

    group_remote_assignor: str | None = option(
        Nullable(Text(empty=False)), None, Group.READING, Importance.MEDIUM
    )
    """The coordinator's assignor: `uniform`, `range`, or another one that the brokers offer. None
    lets the brokers choose. A value makes `group_protocol` `consumer`."""

    partition_assignment_strategy: AssignorOption | Sequence[AssignorOption] = option(
        Assignors(AssignorOption), "range", Group.READING, Importance.MEDIUM
    )
    """How the group's leader assigns the partitions. All members must have one strategy in common:
    of several, the coordinator chooses one that all members have, so a group can change its
    strategy while it reads. A value makes `group_protocol` `classic`."""

    session_timeout_ms: int = option(
        Milliseconds(1, INT_MAX), 45000, Group.READING, Importance.HIGH
    )
    """How long the coordinator waits for a member's heartbeat before it reassigns the member's
    partitions. A value makes `group_protocol` `classic`, unless that is set. With `consumer` the
    brokers decide; set a shorter time here if theirs is below 45 s, so that a member that wakes
    late asks the coordinator before it returns records."""

    heartbeat_interval_ms: int = option(
        Milliseconds(1, INT_MAX), 3000, Group.READING, Importance.HIGH
    )
    """The time between heartbeats, at most a third of `session_timeout_ms`. A value makes
    `group_protocol` `classic`, unless that is set. With `consumer` the brokers decide."""

    max_poll_interval_ms: int = option(
        Milliseconds(1, INT_MAX), 300000, Group.READING, Importance.MEDIUM
    )
    """The longest time for a record, a list or a batch, from when your code gets it until it is
    acknowledged. Then the member leaves the group, and another member reads the record again; after
    a static member only when its session has ended. The member also leaves when records have waited
    this long and nobody reads. It joins again when your code asks for records. Set more than your
    slowest handler takes. A rebalance waits up to this long for the records in processing."""

    auto_commit: bool = option(
        Boolean(), True, Group.READING, Importance.MEDIUM, java_name="enable.auto.commit"
    )
    """Commit acknowledged records every `auto_commit_interval_ms`, when partitions are revoked, and
    on close."""

    auto_commit_interval_ms: int = option(
        Milliseconds(1, INT_MAX), 1000, Group.READING, kafka_default="5000"
    )
    """The time between commits. With Kafka's five seconds, five times as many records are repeated
    after a crash."""

    decided_by: str = field(default="", init=False)
    """The option that decided :attr:`group_protocol`; empty if it is None."""

    @property
    def assignors(self) -> tuple[str, ...]:
        """The strategies, the preferred one first."""
        given = self.partition_assignment_strategy
        return (given,) if isinstance(given, str) else tuple(given)

    def __init__(self, **given: Any) -> None:
        object.__setattr__(self, "decided_by", "")
        for name, row in CONSUMER_OPTIONS.items():
            object.__setattr__(self, name, row.default)
        for name in filter(given.__contains__, CONSUMER_OPTIONS):
            object.__setattr__(self, name, CONSUMER_OPTIONS[name].accept(given[name]))
        if self.group_protocol is None:
            self._decide([name for name in _OF_ONE_PROTOCOL if given.get(name) is not None])
        else:
            object.__setattr__(self, "decided_by", "group_protocol")
            own, other = "partition_assignment_strategy", "group_remote_assignor"
            if self.group_protocol == "consumer":
                own, other = other, own
            if given.get(other) is not None:
                raise ConfigError(
                    f"{other} has no effect with group_protocol={self.group_protocol!r}: use {own}"
                )
        classic = self.group_protocol == "classic"
        if classic and self.heartbeat_interval_ms * 3 > self.session_timeout_ms:
            raise ConfigError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be at most a third of "
                f"session_timeout_ms={self.session_timeout_ms} (milliseconds), so that one lost "
                "heartbeat does not end the session: lower it, or raise session_timeout_ms"
            )

    def _decide(self, given: list[str]) -> None:
        """Use the protocol to which the options ``given`` belong."""
        protocols = {_OF_ONE_PROTOCOL[name]: name for name in given}
        if len(protocols) > 1:
            raise ConfigError(
                f"{protocols['classic']} belongs to group_protocol='classic', and "
                f"{protocols['consumer']} to group_protocol='consumer': leave one of them out"
            )
        for protocol, name in protocols.items():
            object.__setattr__(self, "group_protocol", protocol)
            object.__setattr__(self, "decided_by", name)


CONSUMER_OPTIONS: Final = options_of(ConsumerOptions)
