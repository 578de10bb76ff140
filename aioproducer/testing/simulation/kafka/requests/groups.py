"""ListGroups, DescribeGroups and ConsumerGroupDescribe: groups that have offsets and no members.

Source: Kafka's ``GroupCoordinatorService``.
"""

from __future__ import annotations

from typing import Final

from aioproducer.errors.codes import ErrorCode
from aioproducer.testing.simulation.kafka.calls import Call
from aioproducer.testing.simulation.kafka.messages import Fields
from aioproducer.testing.simulation.kafka.requests.metadata import NO_AUTHORIZED_OPERATIONS

_FIRST_THAT_MISSES: Final = 6


def list_groups(call: Call) -> Fields:
    """The groups that this broker coordinates."""
    states = {each.lower() for each in call.body.states_filter or ()}
    types = {each.lower() for each in call.body.types_filter or ()}
    shown = (not states or "empty" in states) and (not types or "classic" in types)
    groups = [
        {"group_id": group, "protocol_type": "", "group_state": "Empty", "group_type": "classic"}
        for group in call.coordinators.groups.offsets
        if shown and not call.coordinators.groups.refuses(call.broker, group, call.now)
    ]
    return {"error_code": call.injected, "groups": groups}


def describe_groups(call: Call) -> Fields:
    """Groups by name."""
    rows: list[Fields] = []
    for name in call.body.groups:
        group = str(name)
        code = call.groups_error(group)
        known = not code and group in call.coordinators.groups.offsets
        if not code and not known and call.version >= _FIRST_THAT_MISSES:
            code = ErrorCode.GROUP_ID_NOT_FOUND
        rows.append(
            {
                "error_code": code,
                "error_message": None,
                "group_id": group,
                "group_state": "Empty" if known else "Dead",
                "protocol_type": "",
                "protocol_data": "",
                "members": [],
                "authorized_operations": NO_AUTHORIZED_OPERATIONS,
            }
        )
    return {"groups": rows}


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
