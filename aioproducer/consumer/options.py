"""The options of a consumer, beside those of its connections and of reading.

Names and defaults are those of ``org.apache.kafka.clients.consumer.ConsumerConfig``;
``kafka_default`` marks where a default differs and the meaning says why.
"""

# ruff: noqa: RUF009  # option() is dataclasses.field() with a kind

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypedDict

from aioproducer.config.kinds import INT_MAX, Boolean, Choice, Milliseconds
from aioproducer.config.option import Group, Importance, option, options_of

__all__ = ["CONSUMER_OPTIONS", "AssignorOption", "ConsumerKeywords", "ConsumerOptions"]

AssignorOption = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]


class ConsumerKeywords(TypedDict, total=False):
    """The options as keywords."""

    partition_assignment_strategy: AssignorOption
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    auto_commit: bool
    auto_commit_interval_ms: int


@dataclass(frozen=True, slots=True, init=False)
class ConsumerOptions:
    """The options with their defaults.

    Raises:
        ConfigError: a value is of the wrong type or out of range.
    """

    partition_assignment_strategy: AssignorOption = option(
        Choice(AssignorOption), "range", Group.READING, Importance.MEDIUM
    )
    """How the group's leader divides the partitions. All members need one in common."""

    session_timeout_ms: int = option(
        Milliseconds(1, INT_MAX), 45000, Group.READING, Importance.HIGH
    )
    """The coordinator gives the partitions of a member away that it has not heard of for this
    time."""

    heartbeat_interval_ms: int = option(
        Milliseconds(1, INT_MAX), 3000, Group.READING, Importance.HIGH
    )
    """The time between heartbeats; at most a third of `session_timeout_ms`."""

    max_poll_interval_ms: int = option(
        Milliseconds(1, INT_MAX), 300000, Group.READING, Importance.MEDIUM
    )
    """The time that a record may be in work when the group divides its partitions anew. Then the
    others go on without this member."""

    auto_commit: bool = option(Boolean(), True, Group.READING, Importance.MEDIUM)
    """Acknowledged records are committed by themselves: each `auto_commit_interval_ms`, when
    partitions are revoked, and on close."""

    auto_commit_interval_ms: int = option(
        Milliseconds(1, INT_MAX), 1000, Group.READING, kafka_default="5000"
    )
    """The time between commits. Kafka's five seconds repeat five times as many records after a
    crash."""

    def __init__(self, **given: Any) -> None:
        for name, row in CONSUMER_OPTIONS.items():
            object.__setattr__(self, name, row.default)
        for name in filter(given.__contains__, CONSUMER_OPTIONS):
            object.__setattr__(self, name, CONSUMER_OPTIONS[name].accept(given[name]))


CONSUMER_OPTIONS: Final = options_of(ConsumerOptions)
