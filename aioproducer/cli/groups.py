"""``aioproducer groups``: list, describe and delete groups, and reset their offsets.

Source of the offsets from which a group goes on after a reset: Kafka's ``ConsumerGroupCommand``.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import typer

from aioproducer.admin import (
    Admin,
    GroupDescription,
    GroupListing,
    GroupMember,
    LogPosition,
    PartitionLag,
)
from aioproducer.cli import EXIT_FAILED, exit_codes
from aioproducer.cli.admin_call import Yes, call_admin, countdown, delete_each, is_confirmed
from aioproducer.cli.app import SubcommandGroup, new_program
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    Json,
    Properties,
    Timeout,
    Verbose,
)
from aioproducer.cli.positions import moment
from aioproducer.cli.results import broker_fields, print_result, table
from aioproducer.cli.settings import topics_of
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import (
    ConfigError,
    GroupIdNotFoundError,
    InvalidOffsetError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from aioproducer.foundation.logs import counted
from aioproducer.model import TopicPartition

__all__ = [
    "OffsetChange",
    "Shift",
    "Target",
    "chosen_partitions",
    "new_offset",
    "planned_changes",
    "GroupProgress",
    "change_fields",
    "change_lines",
    "group_fields",
    "group_lines",
    "listing_fields",
    "listing_lines",
    "owners",
    "groups",
]


_MOST_NAMES: Final = 3
_WITHOUT_MEMBERS: Final = ("Empty", "Dead")


class Shift(NamedTuple):
    """A number of records forwards, or backwards if it is negative."""

    by: int


Target: TypeAlias = Literal["beginning", "end"] | int | datetime | Shift
"""The end of each log, an offset, a time, or a distance from the committed offset."""

Partitions: TypeAlias = dict[str, list[int] | None]
"""Numbers of partitions by topic; None: all."""


class OffsetChange(NamedTuple):
    """The committed offset of a partition, and the one that takes its place."""

    partition: TopicPartition
    now: int | None
    """None: the group has no offset there."""
    new: int
    clamped: bool = False
    """True if the log lacks the wanted offset, so that the nearer end of the log counts."""
    remark: str = ""


def chosen_partitions(texts: Iterable[str]) -> Partitions:
    """``orders`` means all partitions of a topic, ``orders:0,2`` these two.

    Raises:
        ConfigError: it is neither.
    """
    found: Partitions = {}
    for text in texts:
        name, colon, listed = text.partition(":")
        (topic,) = topics_of([name])
        known = found.setdefault(topic, [])
        numbers = listed.split(",") if colon else []
        if not all(number.isascii() and number.isdecimal() for number in numbers):
            raise ConfigError(f"--topic {text!r}: write a topic, or its partitions: orders:0,2")
        if not colon:
            found[topic] = None
        elif known is not None:
            known.extend(int(number) for number in numbers)
    return found


def new_offset(
    target: Target, now: int | None, *, beginning: int, end: int, found: int | None
) -> tuple[int, bool, str]:
    """The offset that ``target`` means, whether it was clamped, and a remark about it.

    ``found``: the offset of a time.
    """
    match target:
        case "beginning":
            return beginning, False, ""
        case "end":
            return end, False, ""
        case datetime():
            wanted = end if found is None else found
            if wanted >= end:
                return end, False, "no record is that late: the end"
        case Shift(by):
            wanted = (now or 0) + by
        case _:
            wanted = target
    if wanted < beginning:
        return beginning, True, f"{wanted} is before the log: its beginning"
    if wanted > end:
        return end, True, f"{wanted} is after the log: its end"
    return wanted, False, ""


async def planned_changes(
    admin: Admin,
    group: str,
    chosen: Partitions | None,
    target: Target,
    left: Callable[[], float],
) -> list[OffsetChange]:
    """The changes that lead a group to ``target``; ``chosen``: None for all that it has offsets of.

    Raises:
        NonEmptyGroupError: the group has members, which would go on from where they are.
        InvalidOffsetError: a partition without an offset can't be shifted.
        GroupIdNotFoundError: there is no such group, and no partition is chosen.
    """
    exists = await _is_without_members(admin, group, left, must_exist=chosen is None)
    if not exists:
        Terminal().say(f"group {group!r} does not exist yet")
    committed = await admin.group_lag(group, timeout=left()) if exists else {}
    if chosen is None:
        gone = [where for where, each in committed.items() if each.end is None]
        if gone:
            Terminal().say(f"left out, because they no longer exist: {', '.join(map(str, gone))}")
        partitions = [where for where in committed if where not in gone]
    else:
        partitions = await _partitions(admin, chosen, left)
    before = {where: committed[where].committed for where in partitions if where in committed}
    without = [where for where in partitions if where not in before]
    if isinstance(target, Shift) and without:
        raise InvalidOffsetError(
            f"group {group!r} has no offset of {', '.join(map(str, without))} that could be "
            "shifted: name the partitions with an offset, or another target"
        )
    beginnings = await admin.list_offsets(dict.fromkeys(partitions, "beginning"), timeout=left())
    ends = await admin.list_offsets(dict.fromkeys(partitions, "end"), timeout=left())
    found = {}
    if isinstance(target, datetime):
        found = await admin.list_offsets(dict.fromkeys(partitions, target), timeout=left())
    changes = []
    for where in partitions:
        now = before.get(where)
        bounds = {"beginning": beginnings[where], "end": ends[where]}
        new = new_offset(target, now, **bounds, found=found.get(where))
        changes.append(OffsetChange(where, now, *new))
    return changes


async def _partitions(
    admin: Admin, chosen: Partitions, left: Callable[[], float]
) -> list[TopicPartition]:
    whole = [topic for topic, numbers in chosen.items() if numbers is None]
    described = await admin.describe_topics(whole, timeout=left())
    found = {
        TopicPartition(topic, number)
        for topic, numbers in chosen.items()
        for number in numbers or ()
    }
    found |= {
        TopicPartition(name, each.partition)
        for name, topic in described.items()
        for each in topic.partitions
    }
    return sorted(found)


async def _is_without_members(
    admin: Admin, group: str, left: Callable[[], float], *, must_exist: bool
) -> bool:
    """False if the group does not exist. Raises NonEmptyGroupError if it has members."""
    try:
        found = (await admin.describe_groups(group, timeout=left()))[group]
    except GroupIdNotFoundError:
        if must_exist:
            raise
        return False
    if found.members or found.state not in _WITHOUT_MEMBERS:
        raise NonEmptyGroupError(
            f"group {group!r} is active ({found.state}, {_members(found)}): stop its members, and "
            "try again"
        )
    return True


def _members(group: GroupDescription) -> str:
    names = [f"{each.client_id} at {each.client_host}" for each in group.members[:_MOST_NAMES]]
    more = ["…"] if len(group.members) > _MOST_NAMES else []
    shown = f": {', '.join(names + more)}" if names else ""
    return f"{counted(len(group.members), 'member')}{shown}"


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
    yield f"{group} {'continues' if executed else 'would continue'} from these offsets:"
    rows = [
        (str(each.partition), _number(each.now), str(each.new), each.remark) for each in changes
    ]
    yield from table([_CHANGES, *rows])
    if not executed:
        yield "nothing was changed: add --execute"


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
    return None if committed is None else PartitionLag(committed, end).lag


def _number(number: int | None) -> str:
    return "none" if number is None else str(number)


groups = new_program(
    cls=SubcommandGroup, help="List, describe and delete groups, and reset their offsets."
)

GroupNames: TypeAlias = Annotated[list[str], typer.Argument(metavar="GROUP", help="Groups.")]


@groups.command("list", help=f"Print all groups with their types and states.\n{exit_codes()}")
def list_groups(
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    async def listed(admin: Admin) -> list[GroupListing]:
        return await admin.list_groups(timeout=timeout)

    found = call_admin(listed, bootstrap_servers, properties, command_config, verbose)
    result = {"groups": [listing_fields(each) for each in found]}
    print_result(result, listing_lines(found), as_json=as_json)
    return 0


@groups.command(
    "describe",
    help="Describe groups: their members, and the committed offset, the end and the lag of each "
    f"partition.\n{exit_codes()}",
    short_help="Describe groups: members, offsets and lag.",
)
def describe(
    names: GroupNames,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    async def described(admin: Admin) -> list[GroupProgress]:
        left = countdown(timeout)
        found = await admin.describe_groups(names, timeout=left())
        return [await _progress(admin, group, left) for group in found.values()]

    found = call_admin(described, bootstrap_servers, properties, command_config, verbose)
    lines = [line for each in found for line in group_lines(each)]
    print_result({"groups": [group_fields(each) for each in found]}, lines, as_json=as_json)
    return 0


@groups.command(
    "reset-offsets",
    help="Set the offsets from which a group continues. Without --execute the command only shows "
    "them.\n\nThe group must have no members. An offset outside the log becomes the nearer end "
    "of the log. A time is 2026-01-31T12:00:00 (local unless it has a zone), @ and the seconds "
    "since 1970, or a duration such as 1h for an hour ago."
    f"\n{exit_codes()}\n\b\nExample:\n"
    "  aioproducer groups reset-offsets billing --topic orders --to-time 1h \\\n"
    "      -b localhost:9092 --execute\n",
    short_help="Set the offsets from which a group continues.",
)
def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP", help="The group.")],
    topic: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC[:N,...]", help="A topic, or some of its partitions. Repeatable."
        ),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="Every partition with a committed offset.")
    ] = False,
    to_beginning: Annotated[
        bool, typer.Option("--to-beginning", help="The first record of each partition.")
    ] = False,
    to_end: Annotated[
        bool, typer.Option("--to-end", help="The end of each partition: new records only.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option(metavar="N", min=0, help="This offset.")] = None,
    to_time: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The first record at or after this time."),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="N offsets forward from the committed one; back if negative."
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Change the offsets, or only show them.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    if bool(topic) == all_topics:
        raise ConfigError("give --topic or --all-topics")
    chosen = chosen_partitions(topic) if topic else None
    target = _target(to_beginning, to_end, to_offset, to_time, shift_by)

    async def reset(admin: Admin) -> list[OffsetChange]:
        left = countdown(timeout)
        changes = await planned_changes(admin, group, chosen, target, left)
        if execute:
            new = {each.partition: each.new for each in changes}
            await admin.alter_group_offsets(group, new, timeout=left())
        return changes

    found = call_admin(reset, bootstrap_servers, properties, command_config, verbose)
    result = change_fields(group, found, executed=execute)
    print_result(result, change_lines(group, found, executed=execute), as_json=as_json)
    return 0


@groups.command("delete", help=f"Delete groups with all their offsets.\n{exit_codes()}")
def delete(
    names: GroupNames,
    yes: Yes = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if a group does not exist.")
    ] = False,
    bootstrap_servers: BootstrapServers = None,
    timeout: Timeout = 30.0,
    properties: Properties = None,
    command_config: CommandConfig = None,
    as_json: Json = False,
    verbose: Verbose = False,
) -> int:
    wanted = list(dict.fromkeys(names))
    if not yes and not is_confirmed(wanted, "all offsets"):
        Terminal().say("nothing was deleted")
        return EXIT_FAILED

    async def deleted(admin: Admin) -> list[str]:
        def delete_one(name: str, left: float) -> Coroutine[Any, Any, None]:
            return admin.delete_groups(name, timeout=left)

        return await delete_each(
            wanted, delete_one, timeout, GroupIdNotFoundError if if_exists else None
        )

    found = call_admin(deleted, bootstrap_servers, properties, command_config, verbose)
    print_result({"deleted": found}, [f"deleted {name}" for name in found], as_json=as_json)
    return 0


async def _progress(
    admin: Admin, group: GroupDescription, left: Callable[[], float]
) -> GroupProgress:
    lag = await admin.group_lag(group.group_id, timeout=left())
    offsets: dict[TopicPartition, tuple[int | None, int | None]] = {
        where: (each.committed, each.end) for where, each in lag.items()
    }
    ends = await _ends(admin, sorted(owners(group).keys() - lag), left)
    offsets |= {where: (None, end) for where, end in ends.items()}
    return GroupProgress(group, dict(sorted(offsets.items())))


async def _ends(
    admin: Admin, partitions: Sequence[TopicPartition], left: Callable[[], float]
) -> dict[TopicPartition, int | None]:
    """The ends of partitions; None for those that members still have, but no longer exist."""
    wanted: dict[TopicPartition, LogPosition] = dict.fromkeys(partitions, "end")
    try:
        return {**await admin.list_offsets(wanted, timeout=left())}
    except UnknownTopicOrPartitionError:
        if len(partitions) == 1:
            return {partitions[0]: None}
    middle = len(partitions) // 2
    first = await _ends(admin, partitions[:middle], left)
    return first | await _ends(admin, partitions[middle:], left)


def _target(
    to_beginning: bool,
    to_end: bool,
    to_offset: int | None,
    to_time: str | None,
    shift_by: int | None,
) -> Target:
    """The only target that is given. Raises ConfigError for none, and for several."""
    given: list[Target] = []
    if to_beginning:
        given.append("beginning")
    if to_end:
        given.append("end")
    if to_offset is not None:
        given.append(to_offset)
    if to_time is not None:
        given.append(moment("--to-time", to_time, datetime.now(UTC)))
    if shift_by is not None:
        given.append(Shift(shift_by))
    if len(given) != 1:
        raise ConfigError(
            "give one of --to-beginning, --to-end, --to-offset, --to-time and --shift-by"
        )
    return given[0]
