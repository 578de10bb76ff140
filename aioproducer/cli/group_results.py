"""Descriptions of groups, and changes of their offsets, as lines and as JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aioproducer.admin import GroupDescription, GroupListing, GroupMember
from aioproducer.cli.offset_reset import OffsetChange
from aioproducer.cli.results import broker_fields, table
from aioproducer.foundation.logs import counted
from aioproducer.model import TopicPartition

__all__ = [
    "GroupProgress",
    "change_fields",
    "change_lines",
    "group_fields",
    "group_lines",
    "listing_fields",
    "listing_lines",
    "owners",
]

_LISTED = ("group", "type", "state")
_MEMBERS = ("member", "client", "host", "partitions")
_PARTITIONS = ("partition", "committed", "end", "lag", "member")
_CHANGES = ("partition", "now", "new", "")


class GroupProgress(NamedTuple):
    """A group, and its progress in each partition that it reads or has offsets of."""

    group: GroupDescription
    offsets: Mapping[TopicPartition, tuple[int | None, int | None]]
    """The committed offset and the end of each partition; None: there is none."""


def owners(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    """The members of a group by the partitions that they read."""
    return {where: each for each in group.members for where in each.partitions or ()}


def listing_fields(group: GroupListing) -> dict[str, Any]:
    """A group of the list, as JSON has it."""
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
    }


def listing_lines(groups: Sequence[GroupListing]) -> Iterator[str]:
    """Groups with their states, a line each."""
    if groups:
        rows = [(each.group_id, each.type or "", each.state or "") for each in groups]
        yield from table([_LISTED, *rows], indent="")


def group_fields(found: GroupProgress) -> dict[str, Any]:
    """A group, as JSON has it."""
    group = found.group
    readers = owners(group)
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": None if group.coordinator is None else broker_fields(group.coordinator),
        "members": [_member_fields(each) for each in group.members],
        "partitions": [
            {
                "topic": where.topic,
                "partition": where.partition,
                "committed": committed,
                "end": end,
                "lag": _lag(committed, end),
                "member_id": readers[where].member_id if where in readers else None,
            }
            for where, (committed, end) in found.offsets.items()
        ],
    }


def group_lines(found: GroupProgress) -> Iterator[str]:
    """A group, as a person reads it."""
    group = found.group
    told = [group.state, counted(len(group.members), "member"), f"{group.type} protocol"]
    if group.assignor:
        told.append(f"assignor {group.assignor}")
    if group.coordinator is not None:
        told.append(f"coordinator {group.coordinator.id} at {group.coordinator.address}")
    yield f"{group.group_id}: {', '.join(told)}"
    if group.members:
        yield from table([_MEMBERS, *map(_member_row, group.members)])
    if found.offsets:
        readers = owners(group)
        rows = [
            (
                str(where),
                _number(committed),
                _number(end),
                _number(_lag(committed, end)),
                readers[where].member_id if where in readers else "none",
            )
            for where, (committed, end) in found.offsets.items()
        ]
        yield from table([_PARTITIONS, *rows])


def change_fields(group: str, changes: Iterable[OffsetChange], *, executed: bool) -> dict[str, Any]:
    """Changes of offsets, as JSON has them."""
    return {
        "group": group,
        "executed": executed,
        "offsets": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "now": each.now,
                "new": each.new,
                "clamped": each.clamped,
            }
            for each in changes
        ],
    }


def change_lines(group: str, changes: Sequence[OffsetChange], *, executed: bool) -> Iterator[str]:
    """Changes of offsets, as a person reads them."""
    if not changes:
        yield f"{group} has no offsets"
        return
    yield f"{group} {'goes' if executed else 'would go'} on from these offsets:"
    rows = [
        (str(each.partition), _number(each.now), str(each.new), each.remark) for each in changes
    ]
    yield from table([_CHANGES, *rows])
    if not executed:
        yield "nothing was changed: --execute does it"


def _member_fields(member: GroupMember) -> dict[str, Any]:
    partitions = member.partitions
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "partitions": None
        if partitions is None
        else [{"topic": each.topic, "partition": each.partition} for each in partitions],
    }


def _member_row(member: GroupMember) -> tuple[str, ...]:
    numbers: dict[str, list[int]] = {}
    for topic, number in sorted(member.partitions or ()):
        numbers.setdefault(topic, []).append(number)
    shown = [f"{topic}:{','.join(map(str, each))}" for topic, each in numbers.items()]
    return (member.member_id, member.client_id, member.client_host, " ".join(shown) or "none")


def _lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(0, end - committed)


def _number(number: int | None) -> str:
    return "none" if number is None else str(number)
