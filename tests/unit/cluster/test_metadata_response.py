from __future__ import annotations

import datetime
import importlib
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from kio.index import load_response_schema
from kio.static.primitive import i32Timedelta

from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.cluster.snapshot import PartitionLeader, TopicInfo
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.errors import (
    InvalidTopicError,
    LeaderNotAvailableError,
    ProtocolError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import Node, PartitionInfo
from tests.support.responses import metadata_answer, read_to_its_end

LOWEST, HIGHEST = SUPPORTED[Api.METADATA]
VERSIONS = range(LOWEST, HIGHEST + 1)
TOPIC_ID = UUID(int=77)
TOPICS = frozenset({"orders", "gone", "new"})
"""Those that were asked for."""

Topic: TypeAlias = tuple[str | None, int, Sequence[tuple[int, int, int]]]
"""Name, error code, partitions (index, leader, epoch)."""


def made(kind: type[Any], **values: Any) -> Any:
    """An entity of kio's with what its version has of ``values``."""
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in values.items() if name in known})


def response(
    version: int,
    topics: Sequence[Topic],
    brokers: Sequence[tuple[int, str, int, str | None]] = ((1, "host1", 9092, None),),
) -> Any:
    parts: Any = importlib.import_module(load_response_schema(3, version).__module__)
    return made(
        parts.MetadataResponse,
        throttle_time=i32Timedelta.parse(datetime.timedelta(0)),
        brokers=tuple(
            parts.MetadataResponseBroker(node_id=number, host=host, port=port, rack=rack)
            for number, host, port, rack in brokers
        ),
        cluster_id="cluster-7",
        controller_id=1,
        error_code=ErrorCode.NONE,
        topics=tuple(
            made(
                parts.MetadataResponseTopic,
                error_code=ErrorCode(code),
                name=name,
                topic_id=TOPIC_ID,
                partitions=tuple(
                    made(
                        parts.MetadataResponsePartition,
                        error_code=ErrorCode.NONE if leader >= 0 else ErrorCode(5),
                        partition_index=index,
                        leader_id=leader,
                        leader_epoch=epoch,
                        replica_nodes=(1, 2),
                        isr_nodes=(1,),
                        offline_replicas=(),
                    )
                    for index, leader, epoch in partitions
                ),
            )
            for name, code, partitions in topics
        ),
    )


def read(response: Any, *detailed: str) -> MetadataNews:
    """It went over the wire, and is read to its end."""
    return read_to_its_end(metadata_answer(response), TOPICS, detailed)


def news(
    version: int, *topics: tuple[str | None, int, Sequence[tuple[int, int, int]]]
) -> MetadataNews:
    return read(response(version, topics))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_whole_response(version: int) -> None:
    said = read(
        response(
            version,
            [("orders", 0, [(0, 1, 7), (1, 2, 8)]), ("gone", 3, []), ("new", 5, [])],
            [(1, "host1", 9092, "rack-a"), (2, "::1", 9093, None)],
        )
    )
    assert said.brokers == {
        1: Node(1, "host1", 9092, "rack-a"),
        2: Node(2, "::1", 9093, None),
    }
    # Kafka before 2.4 (version 9) tells old epochs while replicas are reassigned
    epochs = (7, 8) if version >= 9 else (-1, -1)
    assert said.topics == {
        "orders": TopicInfo(
            "orders",
            TOPIC_ID if version >= 10 else None,
            (PartitionLeader(0, 1, epochs[0]), PartitionLeader(1, 2, epochs[1])),
        )
    }
    assert type(said.errors["gone"]) is UnknownTopicOrPartitionError
    assert type(said.errors["new"]) is LeaderNotAvailableError
    assert set(said.errors) == {"gone", "new"}


@pytest.mark.parametrize("version", [LOWEST, 9, HIGHEST])
def test_partitions_come_in_any_order_and_keep_their_place_without_leader(version: int) -> None:
    said = news(version, ("orders", 0, [(3, 1, 5), (0, -1, 6), (1, 1, 5)]))
    partitions = said.topics["orders"].partitions
    assert [each.partition for each in partitions] == [0, 1, 2, 3]
    assert [each.leader for each in partitions] == [None, 1, None, 1]
    if version >= 9:
        assert partitions[0].leader_epoch == 6, "the epoch counts without leader too"
        assert partitions[2] == PartitionLeader(2, None), "not spoken of"


@pytest.mark.parametrize("version", [12, 13])
def test_a_topic_without_name_is_skipped(version: int) -> None:
    said = news(version, (None, 100, []), ("orders", 0, [(0, 1, 0)]))
    assert set(said.topics) == {"orders"}
    assert not said.errors


def test_a_topic_without_partitions_is_neither_known_nor_an_error() -> None:
    said = news(HIGHEST, ("orders", 0, []))
    assert not said.topics
    assert not said.errors


@pytest.mark.parametrize(
    ("code", "kind", "hint"),
    [
        (3, UnknownTopicOrPartitionError, "does not exist"),
        (5, LeaderNotAvailableError, "no leader yet"),
        (17, InvalidTopicError, "is invalid"),
        (29, TopicAuthorizationFailedError, "DESCRIBE permission"),
    ],
)
def test_errors_name_the_topic_and_what_to_do(code: int, kind: type, hint: str) -> None:
    error = news(HIGHEST, ("orders", code, [])).errors["orders"]
    assert type(error) is kind
    assert "'orders'" in str(error)
    assert hint in str(error)


@pytest.mark.parametrize("code", [each for each in ErrorCode if each], ids=lambda code: code.name)
def test_every_error_code_of_a_topic_becomes_its_error(code: ErrorCode) -> None:
    said = news(HIGHEST, ("orders", code, [(0, 1, 0)]))
    assert said.errors["orders"].code == int(code)
    assert not said.topics, "an error, so no topic, even with partitions"


@pytest.mark.parametrize(
    ("code", "stale"),
    [(0, False), (5, True), (9, True), (72, True), (-1, False), (44, False)],
)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_partition_with_a_passing_error_asks_for_another_answer(
    version: int, code: int, stale: bool
) -> None:
    answer = response(version, [("orders", 0, [(0, 1, 0), (1, -1, 0)])])
    gone = replace(answer.topics[0].partitions[1], error_code=ErrorCode(code))
    topic = replace(answer.topics[0], partitions=(answer.topics[0].partitions[0], gone))
    said = read(replace(answer, topics=(topic,)))
    assert set(said.stale) == ({"orders"} if stale else set())
    assert [each.leader for each in said.topics["orders"].partitions] == [1, None]


def test_no_brokers() -> None:
    said = read(response(HIGHEST, [], []))
    assert not said.brokers


# --- what is asked for with the replicas --------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_replicas_where_they_are_wanted(version: int) -> None:
    answer = response(version, [("orders", 0, [(1, -1, 7), (0, 1, 7)]), ("new", 0, [(0, 1, 0)])])
    assert read(answer).details == {}
    one, two = Node(1, "host1", 9092), Node(2, "", -1)
    assert read(answer, "orders", "gone").details == {
        "orders": (
            PartitionInfo("orders", 0, one, (one, two), (one,), ()),
            PartitionInfo("orders", 1, None, (one, two), (one,), ()),
        )
    }


@pytest.mark.parametrize("kind", ["replica_nodes", "isr_nodes", "offline_replicas"])
def test_a_replica_on_a_broker_whose_id_cannot_be(kind: str) -> None:
    answer = response(HIGHEST, [("orders", 0, [(0, 1, 7)])])
    (topic,) = answer.topics
    odd = replace(topic.partitions[0], **{kind: (1, -7)})
    answer = replace(answer, topics=(replace(topic, partitions=(odd,)),))
    assert set(read(answer).topics) == {"orders"}
    with pytest.raises(ProtocolError, match="'orders' on a broker with id -7"):
        read(answer, "orders")


# --- what no broker means -----------------------------------------------------------------------


def test_a_topic_that_was_not_asked_for_is_not_taken_up() -> None:
    said = news(
        HIGHEST,
        ("orderz", 0, [(-7, -9, -9)]),
        ("ordeqs", 29, []),
        ("orders", 0, [(0, 1, 0)]),
        ("more", 3, []),
    )
    assert set(said.topics) == {"orders"}
    assert not said.errors


@pytest.mark.parametrize("host", ["", ".", "..", "%x", "-", "a\nb", "a\x1b"])
def test_a_broker_without_address_is_left_out(host: str) -> None:
    brokers = [(1, "host1", 9092, None), (2, host, 9092, None), (-1, "", -1, None)]
    assert set(read(response(HIGHEST, [], brokers)).brokers) == {1}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "partitions",
    [
        pytest.param([(-1, 1, 0)], id="negative"),
        pytest.param([(2**31 - 1, 1, 0)], id="memory for two thousand million"),
        pytest.param([(0, 1, 0), (1002, 1, 0)], id="a thousand missing"),
        pytest.param([(0, 1, 0), (0, 2, 0)], id="twice"),
        pytest.param([(0, -2, 0)], id="leader"),
    ],
)
def test_partitions_that_cannot_be(
    version: int, partitions: Sequence[tuple[int, int, int]]
) -> None:
    with pytest.raises(ProtocolError, match="partition"):
        news(version, ("orders", 0, partitions), ("new", 0, [(0, 1, 0)]))


def test_an_epoch_that_cannot_be() -> None:
    with pytest.raises(ProtocolError, match="epoch -2"):
        news(HIGHEST, ("orders", 0, [(0, 1, -2), (1, 1, 0)]))


@pytest.mark.parametrize("number", [-1, -(2**31)])
def test_a_broker_whose_id_cannot_be(number: int) -> None:
    with pytest.raises(ProtocolError, match=f"id {number}"):
        read(response(HIGHEST, [], [(number, "host", 1, None)]))


def test_an_answer_that_is_an_error_says_nothing_else() -> None:
    refused = replace(response(13, [("orders", 0, [(0, 1, 0)])]), error_code=ErrorCode(129))
    said = read(refused)
    assert said.error_code == 129
    assert not said.topics
    assert not said.brokers


# --- in steps -----------------------------------------------------------------------------------


def test_each_broker_topic_and_partition_is_a_step_of_its_own() -> None:
    """However many there are, each takes microseconds, and others have their turn in between."""
    topics: list[Topic] = [("orders", 0, [(number, 1, 0) for number in range(100)])]
    answer = metadata_answer(response(HIGHEST, topics, [(1, "h", 1, None)] * 7))
    assert sum(1 for _ in answer.read(TOPICS)) == 7 + 100 + 1 + 1
