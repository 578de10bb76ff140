"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the members of groups of the classic protocol.

Sources: Kafka's ``GroupCoordinatorService`` and ``KafkaApis``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aioproducer.engine.protocol import Api, request_schema
from aioproducer.errors.broker import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Answer, Call, Parked
from aioproducer.testing.simulation.kafka.groups import Reply
from aioproducer.testing.simulation.kafka.messages import Fields

_FIRST_JOIN_WITHOUT_PROTOCOL: Final = 7
_FIRST_SYNC_WITH_PROTOCOL: Final = 5
_FIRST_LEAVE_OF_SEVERAL: Final = 3


def join_group(call: Call) -> Answer:
    """Join a group; answered when all members have joined."""
    body = call.body
    code = _refuses(call)
    if not call.injected and code != ErrorCode.INVALID_GROUP_ID:
        options = call.cluster.options
        least, most = (
            options.group_min_session_timeout_ms,
            options.group_max_session_timeout_ms,
        )
        if not least <= body.session_timeout_ms <= most:
            code = ErrorCode.INVALID_SESSION_TIMEOUT
    if code:
        return _fit(call, {"error_code": code, "member_id": body.member_id, "protocol_name": None})
    reply = call.coordinators.groups.join(call.request, call.now)
    return _later(reply, lambda fields: _fit(call, fields))


def _fit(call: Call, joined: Fields) -> Fields:
    """Older clients get an empty name of a protocol in place of none."""
    if call.version >= _FIRST_JOIN_WITHOUT_PROTOCOL or joined["protocol_name"] is not None:
        return joined
    return {**joined, "protocol_name": ""}


def sync_group(call: Call) -> Answer:
    """The member's part of the assignment; answered when the leader has handed it in."""
    body = call.body
    code = call.injected
    if call.version >= _FIRST_SYNC_WITH_PROTOCOL and None in (
        body.protocol_type,
        body.protocol_name,
    ):
        code = code or ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    code = code or _refuses(call)
    if code:
        return {"error_code": code}
    return _later(call.coordinators.groups.sync(call.request, call.now), lambda fields: fields)


def _later(reply: Reply, fit: Callable[[Fields], Fields]) -> Answer:
    """The answer, now or when other members have done their part."""

    if reply.fields is not None:
        return fit(reply.fields)
    return Parked(lambda _: None if reply.fields is None else fit(reply.fields))


def heartbeat(call: Call) -> Answer:
    """A member lives; told of a rebalance."""
    code = _refuses(call)
    if code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return {"error_code": ErrorCode.NONE}
    return {"error_code": code or call.coordinators.groups.heartbeat(call.body, call.now)}


def leave_group(call: Call) -> Answer:
    """Leave a group."""
    body = call.body
    members = body.members
    if call.version < _FIRST_LEAVE_OF_SEVERAL:
        identity = request_schema(Api.LEAVE_GROUP).MemberIdentity
        members = (identity(member_id=body.member_id, group_instance_id=None),)
    if code := _refuses(call):
        return {"error_code": code, "members": ()}
    codes = call.coordinators.groups.leave(str(body.group_id), members, call.now)
    if call.version < _FIRST_LEAVE_OF_SEVERAL:
        return {"error_code": codes[0]}
    return {
        "error_code": ErrorCode.NONE,
        "members": [
            {
                "member_id": each.member_id,
                "group_instance_id": each.group_instance_id,
                "error_code": code,
            }
            for each, code in zip(members, codes, strict=True)
        ],
    }


def _refuses(call: Call) -> ErrorCode:
    """Why this broker does not answer about a group's members."""
    if not call.injected and not call.body.group_id:
        return ErrorCode.INVALID_GROUP_ID
    return call.groups_error(str(call.body.group_id))
