"""``aioproducer groups``: list, describe and delete groups, and reset their offsets."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

import typer

from aioproducer.admin import Admin, GroupDescription, GroupListing, LogPosition
from aioproducer.cli.admin_call import call_admin, countdown
from aioproducer.cli.commands import EXIT_CODES, SubcommandGroup, new_program
from aioproducer.cli.deletion import Yes, delete_each, is_confirmed
from aioproducer.cli.group_results import (
    GroupProgress,
    change_fields,
    change_lines,
    group_fields,
    group_lines,
    listing_fields,
    listing_lines,
    owners,
)
from aioproducer.cli.offset_reset import (
    OffsetChange,
    Shift,
    Target,
    chosen_partitions,
    planned_changes,
)
from aioproducer.cli.options import (
    BootstrapServers,
    CommandConfig,
    Json,
    Properties,
    Timeout,
    Verbose,
)
from aioproducer.cli.positions import moment
from aioproducer.cli.results import print_result
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import ConfigError, GroupIdNotFoundError
from aioproducer.model import TopicPartition

__all__ = ["groups"]

groups = new_program(
    cls=SubcommandGroup, help="List, describe and delete groups, and reset their offsets."
)

GroupNames: TypeAlias = Annotated[list[str], typer.Argument(metavar="GROUP", help="Groups.")]


@groups.command("list", help=f"Print all groups with their types and states.\n{EXIT_CODES}")
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
    f"partition.\n{EXIT_CODES}",
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
    f"\n{EXIT_CODES}\n\b\nExample:\n"
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


@groups.command("delete", help=f"Delete groups with all their offsets.\n{EXIT_CODES}")
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
        return 1

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
    others: dict[TopicPartition, LogPosition] = dict.fromkeys(owners(group).keys() - lag, "end")
    ends = await admin.list_offsets(others, timeout=left())
    offsets |= {where: (None, end) for where, end in ends.items()}
    return GroupProgress(group, dict(sorted(offsets.items())))


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
