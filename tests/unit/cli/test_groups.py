"""`aioproducer groups` where an Admin does as the test says: calls, lines and JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from aioproducer.admin import (
    GroupDescription,
    GroupListing,
    GroupMember,
    PartitionDescription,
    PartitionLag,
    TopicDescription,
)
from aioproducer.cli import groups
from aioproducer.cli.app import run
from aioproducer.cli.groups import (
    GroupProgress,
    OffsetChange,
    Shift,
    Target,
    change_fields,
    change_lines,
    chosen_partitions,
    group_fields,
    group_lines,
    listing_fields,
    listing_lines,
    new_offset,
)
from aioproducer.cli.results import cluster_lines, print_result
from aioproducer.errors import (
    GroupIdNotFoundError,
    NonEmptyGroupError,
    UnknownTopicOrPartitionError,
)
from aioproducer.model import Node, TopicPartition

ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
GONE = TopicPartition("gone", 0)
DELETED = TopicPartition("deleted", 0)
RESET = ["groups", "reset-offsets", "billing", "-b", "host:9092"]


class Offsets:
    """The part of an Admin that knows one group; each log has the offsets from 5 to 100."""

    def __init__(self, state: str | None = "Empty", members: int = 0) -> None:
        self.state = state
        self.members = tuple(
            GroupMember(f"m-{number}", None, f"app-{number}", "/::1", (ONE, DELETED, ZERO))
            for number in range(members)
        )
        self.altered: dict[TopicPartition, int] = {}
        self.deleted: list[str] = []

    async def describe_groups(
        self, groups: str | list[str], *, timeout: float
    ) -> dict[str, GroupDescription]:
        (group,) = [groups] if isinstance(groups, str) else groups
        if self.state is None:
            raise GroupIdNotFoundError(f"group {group!r}: there is no such group")
        return {group: GroupDescription(group, "classic", self.state, "", "", self.members)}

    async def group_lag(self, group: str, *, timeout: float) -> dict[TopicPartition, PartitionLag]:
        return {
            GONE: PartitionLag(3, None),
            ZERO: PartitionLag(50, 100),
            TWO: PartitionLag(98, 100),
        }

    async def describe_topics(
        self, topics: Iterable[str], *, timeout: float
    ) -> dict[str, TopicDescription]:
        three = tuple(PartitionDescription(number, 1, 0, (1,), (1,)) for number in range(3))
        return {name: TopicDescription(name, None, False, three) for name in topics}

    async def list_offsets(
        self, positions: Mapping[TopicPartition, Any], *, timeout: float
    ) -> dict[TopicPartition, int]:
        if DELETED in positions:
            raise UnknownTopicOrPartitionError(f"{DELETED}: UNKNOWN_TOPIC_OR_PARTITION")
        offsets = {"beginning": 5, "end": 100}
        late = {ONE: 100}
        return {where: offsets.get(at, late.get(where, 70)) for where, at in positions.items()}

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int], *, timeout: float
    ) -> None:
        self.altered |= offsets

    async def delete_groups(self, group: str, *, timeout: float) -> None:
        if group == "none":
            raise GroupIdNotFoundError(f"group {group!r}: there is no such group")
        if group == "busy":
            raise NonEmptyGroupError(f"group {group!r}: it has members")
        self.deleted.append(group)


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Offsets:
    admin = Offsets()

    def call_admin(call: Callable[[Any], Awaitable[Any]], *_: Any) -> Any:
        async def called() -> Any:
            return await call(admin)

        return asyncio.run(called())

    monkeypatch.setattr(groups, "call_admin", call_admin)
    return admin


def reset(capsys: pytest.CaptureFixture[str], *options: str) -> dict[tuple[str, int], int]:
    assert run([*RESET, *options, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["executed"] is ("--execute" in options)
    return {(each["topic"], each["partition"]): each["new"] for each in found["offsets"]}


@pytest.mark.parametrize(
    ("options", "new"),
    [
        (["--topic", "orders", "--to-beginning"], {ZERO: 5, ONE: 5, TWO: 5}),
        (["--topic", "orders:2,0", "--to-offset", "200"], {ZERO: 100, TWO: 100}),
        (["--all-topics", "--shift-by", "-48"], {ZERO: 5, TWO: 50}),
        (["--topic", "orders", "--to-datetime", "1h"], {ZERO: 70, ONE: 100, TWO: 70}),
    ],
)
def test_offsets_are_shown_before_they_are_changed(
    admin: Offsets,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    new: dict[TopicPartition, int],
) -> None:
    assert reset(capsys, *options) == new
    assert admin.altered == {}
    assert reset(capsys, *options, "--execute") == admin.altered == new


def test_partitions_that_are_gone_are_left_out(
    admin: Offsets, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*RESET, "--all-topics", "--to-end"]) == 0
    told, said = capsys.readouterr()
    assert "gone-0" not in told
    assert told.endswith("nothing was changed: add --execute\n")
    assert said == "aioproducer: left out, because they no longer exist: gone-0\n"


@pytest.mark.parametrize("options", [[], ["--execute"]])
def test_a_group_with_members_is_left_alone(
    admin: Offsets, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    admin.__init__("Stable", 5)  # type: ignore[misc]
    assert run([*RESET, "--topic", "orders", "--to-end", *options]) == 1
    told, said = capsys.readouterr()
    assert (told, said.count("\n"), admin.altered) == ("", 1, {})
    assert "'billing' is active (Stable, 5 members: app-0 at /::1, " in said
    assert said.endswith(", …): stop its members, and try again\n")


def test_a_group_whose_member_still_has_a_deleted_topic(
    admin: Offsets, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.__init__("Stable", 1)  # type: ignore[misc]
    assert run(["groups", "describe", "billing", "-b", "host:9092", "--json"]) == 0
    [group] = json.loads(capsys.readouterr().out)["groups"]
    ends = {(each["topic"], each["partition"]): each["end"] for each in group["partitions"]}
    assert ends == {DELETED: None, GONE: None, ZERO: 100, ONE: 100, TWO: 100}


def test_a_group_that_is_not_there(admin: Offsets, capsys: pytest.CaptureFixture[str]) -> None:
    admin.state = None
    assert run([*RESET, "--all-topics", "--to-end"]) == 1
    assert "there is no such group" in capsys.readouterr().err
    assert run([*RESET, "--topic", "orders:1", "--to-end"]) == 0
    told, said = capsys.readouterr()
    assert "orders-1   none  100" in told
    assert said == "aioproducer: group 'billing' does not exist yet\n"


def test_no_offset_can_be_shifted(admin: Offsets, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*RESET, "--topic", "orders", "--shift-by", "1"]) == 1
    assert "'billing' has no offset of orders-1 that could be shifted" in capsys.readouterr().err


def test_groups_are_deleted_one_by_one(admin: Offsets, capsys: pytest.CaptureFixture[str]) -> None:
    delete = ["groups", "delete", "-b", "host:9092", "--yes"]
    assert run([*delete, "a", "none", "b", "a", "--if-exists"]) == 0
    assert capsys.readouterr().out == "deleted a\ndeleted b\n"
    assert run([*delete, "c", "busy", "d"]) == 1
    assert capsys.readouterr().err.endswith("it has members; deleted: c\n")
    assert admin.deleted == ["a", "b", "c"]


# --- without an Admin ----------------------------------------------------------------------------


def test_topics_and_partitions_as_they_are_written() -> None:
    assert chosen_partitions(["a", "b:0,2", "b:7", "c:1", "c", "c:2"]) == {
        "a": None,
        "b": [0, 2, 7],
        "c": None,
    }


@pytest.mark.parametrize(
    ("target", "now", "found", "new"),
    [
        ("beginning", None, None, (5, False)),
        ("end", 7, None, (100, False)),
        (5, None, None, (5, False)),
        (100, None, None, (100, False)),
        (4, None, None, (5, True)),
        (101, None, None, (100, True)),
        (Shift(-10), 50, None, (40, False)),
        (Shift(-46), 50, None, (5, True)),
        (Shift(10**30), 50, None, (100, True)),
        (datetime(2026, 1, 31, tzinfo=UTC), 50, 33, (33, False)),
        (datetime(2026, 1, 31, tzinfo=UTC), 50, 100, (100, False)),
    ],
)
def test_the_offset_that_a_target_means(
    target: Target, now: int | None, found: int | None, new: tuple[int, bool]
) -> None:
    offset, clamped, remark = new_offset(target, now, beginning=5, end=100, found=found)
    assert (offset, clamped) == new
    assert bool(remark) is (clamped or (isinstance(target, datetime) and found == 100))


NOT_COMMITTED = TopicPartition("audit", 0)
MEMBER = GroupMember("app-1", None, "app", "/10.0.0.1", (ONE, ZERO))
BILLING = GroupProgress(
    GroupDescription(
        "billing", "classic", "Stable", "consumer", "range", (MEMBER,), Node(2, "two", 9092, "east")
    ),
    {NOT_COMMITTED: (7, None), ZERO: (4, 10), ONE: (None, 10)},
)
LISTED = GroupListing("billing", "consumer", "Stable", "classic")
CHANGES = [
    OffsetChange(ZERO, 4, 0),
    OffsetChange(ONE, None, 10, clamped=True, remark="99 is after the log: its end"),
]


def test_a_group_as_lines() -> None:
    assert list(group_lines(BILLING)) == [
        "billing: Stable, 1 member, classic protocol, assignor range, coordinator 2 at two:9092",
        "  member  client  host       partitions",
        "  app-1   app     /10.0.0.1  orders:0,1",
        "  partition  committed  end   lag   member",
        "  audit-0    7          none  none  none",
        "  orders-0   4          10    6     app-1",
        "  orders-1   none       10    none  app-1",
    ]
    empty = GroupDescription("idle", "consumer", "Empty", "consumer", "", ())
    assert list(group_lines(GroupProgress(empty, {}))) == [
        "idle: Empty, 0 members, consumer protocol"
    ]
    idle = MEMBER._replace(partitions=None)
    lines = list(group_lines(GroupProgress(empty._replace(members=(idle,)), {})))
    assert lines[-1].split() == ["app-1", "app", "/10.0.0.1", "none"]


def test_a_group_as_json() -> None:
    assert group_fields(BILLING) == {
        "group": "billing",
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
        "assignor": "range",
        "coordinator": {"id": 2, "host": "two", "port": 9092, "rack": "east"},
        "members": [
            {
                "member_id": "app-1",
                "instance_id": None,
                "client_id": "app",
                "client_host": "/10.0.0.1",
                "partitions": [
                    {"topic": "orders", "partition": 1},
                    {"topic": "orders", "partition": 0},
                ],
            }
        ],
        "partitions": [
            {
                "topic": topic,
                "partition": number,
                "committed": committed,
                "end": end,
                "lag": lag,
                "member_id": member,
            }
            for topic, number, committed, end, lag, member in (
                ("audit", 0, 7, None, None, None),
                ("orders", 0, 4, 10, 6, "app-1"),
                ("orders", 1, None, 10, None, "app-1"),
            )
        ],
    }


def test_the_list_of_groups() -> None:
    assert list(listing_lines([LISTED, GroupListing("old", "", None, None)])) == [
        "group    type     state",
        "billing  classic  Stable",
        "old",
    ]
    assert list(listing_lines([])) == []
    assert listing_fields(LISTED) == {
        "group": "billing",
        "type": "classic",
        "state": "Stable",
        "protocol_type": "consumer",
    }


def test_changes_of_offsets() -> None:
    table = [
        "  partition  now   new",
        "  orders-0   4     0",
        "  orders-1   none  10   99 is after the log: its end",
    ]
    would, does = (
        "billing would continue from these offsets:",
        "billing continues from these offsets:",
    )
    undone = "nothing was changed: add --execute"
    assert list(change_lines("billing", CHANGES, executed=False)) == [would, *table, undone]
    assert list(change_lines("billing", CHANGES, executed=True)) == [does, *table]
    assert list(change_lines("billing", [], executed=True)) == ["billing has no offsets"]
    assert change_fields("billing", CHANGES[1:], executed=True) == {
        "group": "billing",
        "executed": True,
        "offsets": [{"topic": "orders", "partition": 1, "now": None, "new": 10, "clamped": True}],
    }


def test_what_others_call_themselves_gives_a_terminal_no_orders(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad = "\x1b[2J\nforged\x9b\u202e"
    member = GroupMember(bad, bad, bad, bad, (TopicPartition(bad, 0),))
    group = GroupDescription(bad, bad, bad, bad, bad, (member,), Node(1, bad, 9092, bad))
    found = GroupProgress(group, {TopicPartition(bad, 0): (1, 2)})
    changes = [OffsetChange(TopicPartition(bad, 0), 4, 0, remark=bad)]
    listed = [GroupListing(bad, bad, bad, bad)]
    results = [
        (group_fields(found), [*group_lines(found)]),
        (listing_fields(listed[0]), [*listing_lines(listed)]),
        (change_fields(bad, changes, executed=False), [*change_lines(bad, changes, executed=True)]),
        ({"cluster": bad}, [*cluster_lines(bad, [Node(1, bad, 9092, bad)], {bad: 1})]),
    ]
    for fields, lines in results:
        for as_json in (False, True):
            print_result(fields, lines, as_json=as_json)
            said = capsys.readouterr().out.splitlines()
            assert len(said) == (1 if as_json else len(lines))
            assert all(line.isprintable() for line in said)
            assert all("forged" not in line[:6] for line in said)
