"""A producer's health from facts: a row for each situation that an operator meets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aioproducer.engine.accumulator import FailingTopic, LeaderView
from aioproducer.engine.core.health import (
    FAILURES_COUNT_FOR,
    STALLED_AFTER,
    Health,
    HealthFacts,
    assess,
    stalled_after,
)
from aioproducer.engine.network.connection_view import ConnectionView
from aioproducer.errors import (
    BrokerConnectionError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from aioproducer.model import BootstrapId, BootstrapServer, Node, NodeId, Peer

NOW = 1000.0
NODES = {number: Node(number, f"host{number}", 9092) for number in (1, 2, 3)}
BOOT = BootstrapServer(BootstrapId("-1"), "boot", 9092)
REFUSED = BrokerConnectionError("broker 1 (host1:9092): Connection refused")


def connection(node: NodeId, **given: Any) -> ConnectionView:
    peer: Peer = BOOT if isinstance(node, str) else NODES[node]
    since = NOW - 60
    ready = ConnectionView(node, peer, True, False, since, None, 0.0, False, None, 0.0, 0, since)
    return ready._replace(**given)


def down(node: NodeId, seconds: float, **given: Any) -> ConnectionView:
    """A broker whose connection attempts have failed for so long."""
    failed = {
        "is_ready": False,
        "since": NOW - seconds,
        "failing_since": NOW - seconds,
        "retry_at": NOW + 0.5,
        "error": REFUSED,
    }
    return connection(node, **(failed | given))


def leading(*nodes: int, records: bool = False, silent: float = 0.0) -> list[LeaderView]:
    return [LeaderView(node, 2, records, NOW - silent) for node in nodes]


def facts(**given: Any) -> HealthFacts:
    """A producer in full health, but for what is given."""
    healthy = HealthFacts(
        "payments",
        "started",
        connections=[connection(node) for node in NODES],
        leaders=leading(*NODES),
        brokers=NODES,
        peers=tuple(NODES.values()),
        topics=2,
        metadata_updated=NOW - 5,
    )
    return healthy._replace(**given)


def health(**given: Any) -> Health:
    return assess(facts(**given), NOW)


def states(found: Health) -> dict[int | str, str]:
    return {each.node: each.state for each in found.brokers}


NEW: dict[str, Any] = {
    "connections": [],
    "leaders": [],
    "brokers": {},
    "peers": (BOOT,),
    "topics": 0,
    "metadata_updated": None,
}
"""A producer that has sent nothing."""

AUTHORIZATION = TopicAuthorizationFailedError("topic 'orders': not authorized")

SITUATIONS: dict[str, tuple[dict[str, Any], bool | None, float | None, str]] = {
    "all leaders connected": ({}, True, None, ""),
    "nothing sent yet": (NEW, None, None, ""),
    "a bootstrap server is connected": (
        NEW | {"connections": [connection(BOOT.id)]},
        True,
        None,
        "",
    ),
    "idle connections were closed": (
        {
            "connections": [
                connection(node, is_ready=False, error=BrokerConnectionError("idle"))
                for node in NODES
            ]
        },
        None,
        None,
        "",
    ),
    "one of three leaders is down": (
        {"connections": [down(1, 20), connection(2), connection(3)]},
        True,
        None,
        "broker 1 (host1:9092) is unreachable for 20 s: Connection refused",
    ),
    "a broker that leads nothing is down": (
        {"connections": [down(1, 20), connection(2), connection(3)], "leaders": leading(2, 3)},
        True,
        None,
        "",
    ),
    "all leaders are down": (
        {"connections": [down(1, 30), down(2, 20), down(3, 10)]},
        False,
        10.0,
        "broker 1 (host1:9092) is unreachable for 30 s",
    ),
    "the only leader is down": (
        {"connections": [down(1, 20), connection(2), connection(3)], "leaders": leading(1)},
        False,
        20.0,
        "is unreachable",
    ),
    "a leader restarts in an instant": (
        {"connections": [down(1, 0.3), connection(2)], "leaders": leading(1)},
        None,
        None,
        "is unreachable",
    ),
    "a failure of an hour ago": (
        {
            "connections": [down(1, 3600, retry_at=NOW - 3500), connection(2)],
            "leaders": leading(1),
        },
        None,
        None,
        "",
    ),
    "no bootstrap server answers": (
        NEW | {"connections": [down(BOOT.id, 5)], "topics": 1},
        False,
        5.0,
        "bootstrap server (boot:9092) is unreachable for 5 s",
    ),
    "a black hole, while the first attempt lasts": (
        NEW
        | {
            "connections": [connection(BOOT.id, is_ready=False, is_connecting=True, since=NOW - 12)]
        },
        False,
        12.0,
        "bootstrap server (boot:9092) is unreachable for 12 s",
    ),
    "a first attempt under way": (
        NEW
        | {"connections": [connection(BOOT.id, is_ready=False, is_connecting=True, since=NOW - 2)]},
        None,
        None,
        "",
    ),
    "every login refused": (
        {
            "connections": [
                down(node, 0.1, is_refused=True, error=SaslAuthenticationFailedError("no"))
                for node in NODES
            ]
        },
        False,
        0.1,
        "broker 1 (host1:9092) refuses the login for 0 s: no",
    ),
    "a silent leader": (
        {"leaders": [*leading(1, records=True, silent=15), *leading(2, 3)], "oldest_sent": NOW - 9},
        True,
        None,
        "broker 1 (host1:9092) has delivered no record for 15 s",
    ),
    "a silent leader whose connection was just opened again": (
        {
            "connections": [connection(1, since=NOW - 1)],
            "leaders": leading(1, records=True, silent=15),
        },
        False,
        15.0,
        "broker 1 (host1:9092) has delivered no record for 15 s",
    ),
    "a silent leader whose connection is being opened again": (
        {
            "connections": [connection(1, since=NOW - 1, is_ready=False, is_connecting=True)],
            "leaders": leading(1, records=True, silent=15),
        },
        False,
        15.0,
        "broker 1 (host1:9092) has delivered no record for 15 s",
    ),
    "a leader that is reachable again": (
        {
            "connections": [connection(1, since=NOW - 1, reachable_since=NOW - 1)],
            "leaders": leading(1, records=True, silent=15),
        },
        True,
        None,
        "",
    ),
    "all leaders are silent": (
        {"leaders": leading(*NODES, records=True, silent=15), "oldest_sent": NOW - 15},
        False,
        15.0,
        "has delivered no record for 15 s",
    ),
    "leaders without records are not silent": (
        {"leaders": leading(*NODES, silent=15)},
        True,
        None,
        "",
    ),
    "a slow leader": ({"leaders": leading(*NODES, records=True, silent=9)}, True, None, ""),
    "a throttled leader": (
        {
            "connections": [connection(1, throttled_until=NOW + 1)],
            "leaders": leading(1, records=True, silent=15),
        },
        True,
        None,
        "",
    ),
    "a leader that the cluster does not list": (
        {"brokers": {2: NODES[2]}, "peers": (NODES[2],), "connections": [connection(2)]}
        | {"leaders": [*leading(1, records=True, silent=3), *leading(2)]},
        True,
        None,
        "broker 1 is unreachable for 3 s: the cluster currently does not list this leader",
    ),
    "all brokers are forgotten, and the bootstrap servers are tried": (
        {
            "connections": [
                down(BOOT.id, 20),
                connection(1, is_ready=False, since=NOW - 22, error=REFUSED),
                down(2, 21, retry_at=NOW - 20),
            ],
            "brokers": {},
            "peers": (BOOT,),
            "leaders": leading(1, 2, records=True, silent=22),
        },
        False,
        21.0,
        "broker 1 (host1:9092) is unreachable for 22 s: Connection refused; broker 2",
    ),
    "some partitions without leader": (
        {"leaderless": {"orders": 2}},
        True,
        None,
        "topic 'orders' has 2 partitions without a leader",
    ),
    "no partition has a leader": (
        {"leaders": [], "leaderless": {"orders": 2}, "oldest_sent": NOW - 12},
        False,
        12.0,
        "no outcome for 12 s",
    ),
    "no metadata for long": (
        {"leaders": [], "oldest_sent": NOW - 12, "pending_records": 1},
        False,
        12.0,
        "no outcome for 12 s",
    ),
    "a topic of two fails": (
        {"failing": {"orders": FailingTopic(NOW - 8, NOW - 1, AUTHORIZATION)}},
        True,
        None,
        "no record of topic 'orders' is delivered for 8 s: topic 'orders': not authorized",
    ),
    "the only topic fails": (
        {"failing": {"orders": FailingTopic(NOW - 8, NOW - 1, AUTHORIZATION)}, "topics": 1},
        False,
        8.0,
        "not authorized",
    ),
    "the only topic failed long ago": (
        {
            "failing": {
                "orders": FailingTopic(NOW - 90, NOW - FAILURES_COUNT_FOR - 1, AUTHORIZATION)
            },
            "topics": 1,
        },
        True,
        None,
        "",
    ),
    "the only topic is refused by the cluster": (
        {"topic_errors": {"orders": AUTHORIZATION}, "topics": 1},
        False,
        0.0,
        "not authorized",
    ),
    "a transaction to abort": (
        {"abortable": BrokerConnectionError("a record failed")},
        True,
        None,
        "the transaction can only be aborted: a record failed",
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_each_situation_has_its_health(name: str) -> None:
    given, can_write, since, reason = SITUATIONS[name]
    found = health(**given)
    assert found.can_write is can_write, str(found)
    assert found.since == (None if since is None else pytest.approx(since))
    assert reason in found.reason
    assert bool(reason) == bool(found.problems), found.problems
    assert found.is_live, "a restart would not help"
    assert found.is_ready is (can_write is not False)
    json.dumps(found.as_dict(), allow_nan=False)
    assert "\n" not in str(found)


def test_the_states_of_brokers_are_named() -> None:
    found = health(
        connections=[
            down(1, 20),
            connection(2, throttled_until=NOW + 3),
            connection(3, in_flight=4),
        ]
    )
    assert states(found) == {1: "unreachable", 2: "throttled", 3: "connected"}
    first, _, third = found.brokers
    assert (first.since, first.error, first.leads) == (20.0, "Connection refused", 2)
    assert (third.since, third.error, third.in_flight) == (60.0, "", 4)
    assert [each.is_failing for each in found.brokers] == [True, False, False]
    assert found.is_degraded


def test_a_producer_that_is_not_started_can_not_write() -> None:
    found = health(state="closing", unusable=("the producer is being closed",))
    assert found.can_write is False
    assert found.is_live
    assert not found.is_ready
    assert found.reason == "the producer is being closed"


@pytest.mark.parametrize("state", ["closed", "broken", "fatal", "forked"])
def test_a_producer_that_has_ended_is_not_live(state: str) -> None:
    found = health(state=state, unusable=("it has ended",))
    assert not found.is_live
    assert not found.is_ready
    assert "can't write" in str(found)


def test_thousand_failing_topics_make_a_short_reason() -> None:
    failing = {
        f"topic-{n}": FailingTopic(NOW, NOW, TopicAuthorizationFailedError("x" * 10_000))
        for n in range(1000)
    }
    found = health(failing=failing, topics=1000)
    assert found.can_write is False
    assert len(found.reason) < 5_000


def test_levels_are_told() -> None:
    found = health(oldest_sent=NOW - 3, batches=4, pending_records=7, memory_used=0.25)
    assert found.oldest_record_age == 3.0
    assert (found.batches, found.pending_records, found.memory_used) == (4, 7, 0.25)
    assert found.metadata_age == 5.0
    assert str(found) == (
        "payments (started) can write, 3 of 3 brokers connected, memory 25%, oldest record 3 s"
    )


@pytest.mark.parametrize(
    ("linger", "delivery", "expected"),
    [(0.0, 120.0, STALLED_AFTER), (60.0, 120.0, 70.0), (0.0, 6.0, 3.0), (1.0, 4.0, 2.5)],
)
def test_records_that_linger_are_not_stalled(
    linger: float, delivery: float, expected: float
) -> None:
    """And the threshold comes before the records expire."""
    assert stalled_after(linger, delivery) == expected


def test_another_cluster_comes_first_among_the_problems() -> None:
    said = assess(facts(foreign=BrokerConnectionError("it belongs to cluster 'x' now")), NOW)
    assert said.problems[0] == "it belongs to cluster 'x' now"
