"""What a transactional producer asks its coordinators. No I/O.

A question says what is wanted; who asks (transactional id, producer id, epoch, protocol version) is
the :class:`TransactionHandle` beside it. Source: the request handlers in Kafka's
``TransactionManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from aioproducer.model import (
    ConsumerGroupMetadata,
    Node,
    OffsetAndMetadata,
    TopicPartition,
    TransactionHandle,
)


class CoordinatorType(IntEnum):
    """Kafka's numbers of the kinds of coordinators."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """Whose coordinator: that of a group, or of a transactional id."""

    type: CoordinatorType
    key: str


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Which broker is the coordinator? Any broker knows."""

    coordinator: Coordinator


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Assign the producer id and a new epoch; older holders of the transactional id are fenced."""

    keep: bool
    """Only if the asker's own epoch is the newest (KIP-360); else it fences whoever is there."""


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Take partitions into the transaction, before the first batch is sent there (version 1)."""

    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class AddOffsets:
    """Take a group's offsets into the transaction, before they are sent there (version 1)."""

    group_id: str


@dataclass(frozen=True, slots=True, eq=False)
class CommitOffsets:
    """Write consumed offsets, which become visible with the transaction."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """Commit or abort. In version 2 the answer brings the epoch of the next transaction."""

    committed: bool


@dataclass(frozen=True, slots=True, eq=False)
class FetchOffsets:
    """Where a group has got to; what an open transaction would change is waited for."""

    group_id: str
    partitions: frozenset[TopicPartition]


Question: TypeAlias = (
    FindCoordinator
    | InitProducerId
    | AddPartitions
    | AddOffsets
    | CommitOffsets
    | EndTransaction
    | FetchOffsets
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a coordinator said."""

    error_code: int = 0
    """Of answers about several partitions, the one that decides."""
    message: str | None = None
    """In the broker's own words."""
    place: TopicPartition | None = None
    """The partition that decides."""
    producer_id: int = -1
    epoch: int = -1
    node: Node | None = None
    """The coordinator that was asked for."""
    offsets: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """Of the partitions for which the group has one."""


def coordinator_for(question: Question, handle: TransactionHandle) -> Coordinator | None:
    """Whom to ask; None: any broker."""
    match question:
        case FindCoordinator():
            return None
        case CommitOffsets(_, group):
            return Coordinator(CoordinatorType.GROUP, group.group_id)
        case FetchOffsets(group_id):
            return Coordinator(CoordinatorType.GROUP, group_id)
        case _:
            return Coordinator(CoordinatorType.TRANSACTION, handle.transactional_id)
