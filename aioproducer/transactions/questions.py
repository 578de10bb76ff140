"""The questions of a transactional producer to its coordinators. No I/O.

A question says what is wanted; the asker (transactional id, producer id, epoch, protocol version)
is the :class:`TransactionHandle` beside it. Source: the request handlers in Kafka's
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
    """The coordinator of a group, or of a transactional id."""

    type: CoordinatorType
    key: str


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Find the broker that is the coordinator; any broker knows."""

    coordinator: Coordinator


@dataclass(frozen=True, slots=True)
class InitProducerId:
    """Assign the producer id and a new epoch; older holders of the transactional id are fenced."""

    keep: bool
    """True: only if the asker's epoch is the newest (KIP-360). False: fence the present owner."""


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
    """Fetch a group's offsets; offsets that an open transaction would change are waited for."""

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
    """A coordinator's answer."""

    error_code: int = 0
    """The error code that decides, if the answer is about several partitions."""
    message: str | None = None
    """The broker's own words."""
    place: TopicPartition | None = None
    """The partition that decides."""
    producer_id: int = -1
    epoch: int = -1
    node: Node | None = None
    """The coordinator that was asked for."""
    offsets: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """The offsets of the partitions for which the group has one."""


def coordinator_for(question: Question, handle: TransactionHandle) -> Coordinator | None:
    """The coordinator to ask; None: any broker."""
    match question:
        case FindCoordinator():
            return None
        case CommitOffsets(_, group):
            return Coordinator(CoordinatorType.GROUP, group.group_id)
        case FetchOffsets(group_id):
            return Coordinator(CoordinatorType.GROUP, group_id)
        case _:
            return Coordinator(CoordinatorType.TRANSACTION, handle.transactional_id)
