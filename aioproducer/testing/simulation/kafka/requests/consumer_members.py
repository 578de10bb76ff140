"""ConsumerGroupHeartbeat: the members of groups of KIP-848.

Source: Kafka's ``GroupCoordinatorService.consumerGroupHeartbeat``.
"""

from __future__ import annotations

from typing import Any, Final

from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Answer, Call
from aioproducer.testing.simulation.kafka.groups.assignors import ASSIGNORS

_FIRST_WITHOUT_GIVEN_IDS: Final = 1
_LEAST_EPOCH: Final = -2


def consumer_group_heartbeat(call: Call) -> Answer:
    """A member joins, lives, or leaves."""
    code = call.injected or _invalid(call.body, call.version)
    code = code or call.groups_error(str(call.body.group_id))
    if code:
        return {"error_code": code}
    return call.coordinators.groups.consumer_heartbeat(call.request, call.now)


def _invalid(body: Any, version: int) -> ErrorCode:
    """Why a request makes no sense. Source: ``throwIfConsumerGroupHeartbeatRequestIsInvalid``."""
    epoch = body.member_epoch
    needs_id = version >= _FIRST_WITHOUT_GIVEN_IDS or epoch > 0 or epoch == -1
    if (
        (needs_id and not body.member_id)
        or not body.group_id
        or body.instance_id == ""
        or body.rack_id == ""
        or epoch < _LEAST_EPOCH
        or (epoch == 0 and _incomplete(body))
        or (epoch == _LEAST_EPOCH and body.instance_id is None)
    ):
        return ErrorCode.INVALID_REQUEST
    if body.server_assignor is not None and body.server_assignor not in ASSIGNORS:
        return ErrorCode.UNSUPPORTED_ASSIGNOR
    return ErrorCode.NONE


def _incomplete(body: Any) -> bool:
    """True if a join leaves something out, or names partitions."""
    return (
        body.rebalance_timeout_ms == -1
        or body.topic_partitions is None
        or len(body.topic_partitions) > 0
        or (body.subscribed_topic_names is None and body.subscribed_topic_regex is None)
    )
