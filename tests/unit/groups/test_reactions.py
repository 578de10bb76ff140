"""The reactions of a member to errors of its coordinator."""

from __future__ import annotations

import pytest

from aioproducer.engine.groups.reactions import Reaction, partitions_may_have_moved, reaction_to
from aioproducer.errors.broker import ErrorCode


@pytest.mark.parametrize(
    ("code", "moved"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, True),
        (ErrorCode.ILLEGAL_GENERATION, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.FENCED_MEMBER_EPOCH, True),
        (ErrorCode.STALE_MEMBER_EPOCH, True),
        (ErrorCode.NONE, False),
        (ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.UNRELEASED_INSTANCE_ID, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False),
    ],
)
def test_offsets_are_refused_because_partitions_may_have_moved(code: int, moved: bool) -> None:
    assert partitions_may_have_moved(code) is moved


def test_a_commit_with_an_old_epoch_is_repeated() -> None:
    assert reaction_to(ErrorCode.STALE_MEMBER_EPOCH) is Reaction.RETRY
