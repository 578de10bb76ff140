"""The offsets from which a group goes on after ``aioproducer groups reset-offsets``.

Source: Kafka's ``ConsumerGroupCommand``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final, Literal, NamedTuple, TypeAlias

from aioproducer.admin import Admin, GroupDescription
from aioproducer.cli.settings import topics_of
from aioproducer.cli.terminal import Terminal
from aioproducer.errors import (
    ConfigError,
    GroupIdNotFoundError,
    InvalidOffsetError,
    NonEmptyGroupError,
)
from aioproducer.foundation.logs import counted
from aioproducer.model import TopicPartition

__all__ = ["OffsetChange", "Shift", "Target", "chosen_partitions", "new_offset", "planned_changes"]

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
                return end, False, "no record is so late: the end"
        case Shift(by):
            wanted = (now or 0) + by
        case _:
            wanted = target
    if wanted < beginning:
        return beginning, True, f"{wanted} is before the log: its beginning"
    if wanted > end:
        return end, True, f"{wanted} is behind the log: its end"
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
            Terminal().say(f"left out, as they do not exist any more: {', '.join(map(str, gone))}")
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
