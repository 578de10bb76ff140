"""The reasons that no broker answers."""

from __future__ import annotations

from aioproducer.engine.cluster.snapshot import why_no_answer
from aioproducer.errors import BrokerConnectionError
from aioproducer.model import BootstrapId, BootstrapServer, Node, NodeId, Peer

SERVERS = [BootstrapServer(BootstrapId(f"-{number}"), "kafka", number) for number in (1, 2, 3)]
ONE, TWO = Node(1, "one", 9092), Node(2, "two", 9092)


def failures(peers: list[Peer], reason: str) -> dict[NodeId, BrokerConnectionError]:
    return {each.id: BrokerConnectionError(f"{each}: {reason}") for each in peers}


def test_equal_reasons_are_told_once() -> None:
    assert why_no_answer(SERVERS, failures([*SERVERS], "refused")) == (
        "bootstrap servers kafka:1, kafka:2 and kafka:3: refused"
    )
    assert why_no_answer([ONE, TWO], {}) == (
        "brokers 1 (one:9092) and 2 (two:9092): no response yet"
    )


def test_different_reasons_have_their_brokers() -> None:
    assert why_no_answer([ONE, TWO], failures([ONE], "refused")) == (
        "broker 1 (one:9092): refused; broker 2 (two:9092): no response yet"
    )
    other: dict[NodeId, BrokerConnectionError] = {
        1: BrokerConnectionError("the connection to broker 1 (one:9092) was lost")
    }
    assert why_no_answer([ONE], other) == "the connection to broker 1 (one:9092) was lost"


def test_a_reason_without_a_colon_keeps_its_broker() -> None:
    closed: dict[NodeId, BrokerConnectionError] = {
        1: BrokerConnectionError(f"{ONE} closed the connection")
    }
    assert why_no_answer([ONE], closed) == "broker 1 (one:9092) closed the connection"
