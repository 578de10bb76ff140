"""ListGroups, DescribeGroups and ConsumerGroupDescribe.

Source: Kafka's ``GroupCoordinatorService``.
"""

from __future__ import annotations

from typing import Final

from aioproducer.errors.codes import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.groups.classic_group import (
    ClassicGroup,
    ClassicGroupState,
)
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.requests.metadata import NO_AUTHORIZED_OPERATIONS

_FIRST_THAT_MISSES: Final = 6


def list_groups(call: Call) -> Fields:
    """The groups that this broker coordinates."""
    states = {each.lower() for each in call.body.states_filter or ()}
    types = {each.lower() for each in call.body.types_filter or ()}
    groups = [
        {
            "group_id": each.group_id,
            "protocol_type": each.protocol_type or "",
            "group_state": each.state.value,
            "group_type": "classic",
        }
        for each in call.coordinators.groups.coordinated_by(call.broker, call.now)
        if (not states or each.state.value.lower() in states) and (not types or "classic" in types)
    ]
    return {"error_code": call.injected, "groups": groups}


def describe_groups(call: Call) -> Fields:
    """Groups by name."""
    rows: list[Fields] = []
    for name in call.body.groups:
        code = call.groups_error(str(name))
        group = None if code else call.coordinators.groups.find(str(name))
        if not code and group is None and call.version >= _FIRST_THAT_MISSES:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        protocol = None
        if group is not None and group.state is ClassicGroupState.STABLE:
            protocol = group.protocol
        rows.append(
            {
                "error_code": code,
                "error_message": None,
                "group_id": str(name),
                "group_state": _state(group, code),
                "protocol_type": "" if group is None else group.protocol_type or "",
                "protocol_data": protocol or "",
                "members": []
                if group is None
                else [each.described(protocol) for each in group.members.values()],
                "authorized_operations": NO_AUTHORIZED_OPERATIONS,
            }
        )
    return {"groups": rows}


def _state(group: ClassicGroup | None, code: ErrorCode) -> str:
    if group is not None:
        return group.state.value
    return "Dead" if code in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND) else ""


def consumer_group_describe(call: Call) -> Fields:
    """Groups of the newer protocol (KIP-848), which the model has none of."""
    rows: list[Fields] = []
    for name in call.body.group_ids:
        group = str(name)
        rows.append(
            {
                "error_code": call.groups_error(group) or ErrorCode.GROUP_ID_NOT_FOUND,
                "error_message": None,
                "group_id": group,
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "assignor_name": "",
                "members": [],
                "authorized_operations": NO_AUTHORIZED_OPERATIONS,
            }
        )
    return {"groups": rows}
