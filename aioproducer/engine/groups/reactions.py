"""The reactions of a group's member to errors of its coordinator. No I/O.

Source: the error handling of Kafka's ``AbstractCoordinator``, ``ConsumerCoordinator`` and
``AbstractHeartbeatRequestManager``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final

from aioproducer.errors.broker import RETRIABLE, ErrorCode


class Reaction(Enum):
    """The reaction of a member."""

    DONE = auto()
    """There is no error."""
    RETRY = auto()
    """Ask again, after a backoff."""
    FIND_COORDINATOR = auto()
    """Look for the coordinator, and ask again."""
    REBALANCE = auto()
    """Take part in the rebalance that is under way."""
    JOIN_AGAIN = auto()
    """The group continues without the member: join it again, by the same id."""
    JOIN_AS_NEW = auto()
    """The group does not know the member's id: join it as another one."""
    FAIL = auto()
    """No other attempt can succeed."""


LOST: Final = frozenset({Reaction.JOIN_AGAIN, Reaction.JOIN_AS_NEW})
"""The member's partitions may have other owners already."""

_REACTIONS: Final[Mapping[int, Reaction]] = {
    ErrorCode.NONE: Reaction.DONE,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REBALANCE,
    ErrorCode.ILLEGAL_GENERATION: Reaction.JOIN_AGAIN,
    ErrorCode.FENCED_MEMBER_EPOCH: Reaction.JOIN_AGAIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.JOIN_AS_NEW,
    ErrorCode.STALE_MEMBER_EPOCH: Reaction.RETRY,
    ErrorCode.UNRELEASED_INSTANCE_ID: Reaction.RETRY,  # until the session of its last holder ends
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.FAIL,
    # these two pass when somebody creates the topic, which a commit can't wait for
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.FAIL,
    ErrorCode.UNKNOWN_TOPIC_ID: Reaction.FAIL,
}


def reaction_to(code: int) -> Reaction:
    """The reaction to the error ``code``."""
    if (known := _REACTIONS.get(code)) is not None:
        return known
    return Reaction.RETRY if code in RETRIABLE else Reaction.FAIL


def partitions_may_have_moved(code: int) -> bool:
    """True if a group that refuses offsets with ``code`` may have given the partitions away."""
    # a commit of one's own is repeated with the new epoch, and a transaction's is not
    stale = code == ErrorCode.STALE_MEMBER_EPOCH
    return stale or reaction_to(code) in (Reaction.REBALANCE, *LOST)
