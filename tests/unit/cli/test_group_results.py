"""Groups, and changes of their offsets, as lines and as JSON."""

from __future__ import annotations

import pytest

from aioproducer.admin import GroupDescription, GroupListing, GroupMember
from aioproducer.cli.groups import (
    GroupProgress,
    OffsetChange,
    change_fields,
    change_lines,
    group_fields,
    group_lines,
    listing_fields,
    listing_lines,
)
from aioproducer.cli.results import cluster_lines, print_result
from aioproducer.model import Node, TopicPartition

ZERO, ONE, TWO = (TopicPartition("orders", number) for number in range(3))
GONE = TopicPartition("audit", 0)
MEMBER = GroupMember("app-1", None, "app", "/10.0.0.1", (ONE, ZERO))
BILLING = GroupProgress(
    GroupDescription(
        "billing", "classic", "Stable", "consumer", "range", (MEMBER,), Node(2, "two", 9092, "east")
    ),
    {GONE: (7, None), ZERO: (4, 10), ONE: (None, 10)},
)
LISTED = GroupListing("billing", "consumer", "Stable", "classic")
CHANGES = [
    OffsetChange(ZERO, 4, 0),
    OffsetChange(ONE, None, 10, clamped=True, remark="99 is behind the log: its end"),
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
        "  orders-1   none  10   99 is behind the log: its end",
    ]
    would, does = ("billing would go on from these offsets:", "billing goes on from these offsets:")
    undone = "nothing was changed: --execute does it"
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
