"""Fetch and OffsetForLeaderEpoch in every version: what is asked, and what is read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from random import Random
from uuid import UUID

import pytest

from aioproducer.engine.client.requests import IsolationLevel, ListOffsetsRequest
from aioproducer.engine.network import frames
from aioproducer.engine.network.request import LazyResponse, Request
from aioproducer.engine.protocol import SUPPORTED, Api, response_schema
from aioproducer.errors import ProtocolError
from aioproducer.model import TopicPartition
from aioproducer.reader.requests import (
    AbortedTransaction,
    EpochEnd,
    EpochEndRequest,
    EpochOfPosition,
    FetchLimits,
    FetchPartition,
    FetchRequest,
    SessionPlace,
)
from aioproducer.testing.fault_proxy.faults import damaged
from tests.support.kio_messages import decode, ours, response_type, sample, theirs
from tests.unit.network.test_frames import body

ID, OTHER_ID = UUID(int=5), UUID(int=6)
ONE, TWO, OTHER = (
    TopicPartition("orders", 1),
    TopicPartition("orders", 2),
    TopicPartition("bills", 0),
)
LIMITS = FetchLimits(500, 1, 50_000, 1_000)


def versions(api: Api) -> range:
    low, high = SUPPORTED[api]
    return range(low, high + 1)


def fetch(*places: TopicPartition) -> FetchRequest:
    ids = {"orders": ID, "bills": OTHER_ID}
    partitions = [FetchPartition(each, 100 + each.partition, 7, ids[each.topic]) for each in places]
    topics = {topic_id: topic for topic, topic_id in ids.items()}
    return FetchRequest(partitions, IsolationLevel.READ_COMMITTED, LIMITS, topics)


@pytest.mark.parametrize("version", versions(Api.FETCH))
def test_a_fetch_asks_by_topic(version: int) -> None:
    request = theirs(fetch(ONE, OTHER, TWO).build(version))
    assert (request.min_bytes, request.max_bytes, request.isolation_level) == (1, 50_000, 1)
    assert request.max_wait.total_seconds() == 0.5
    names = {"orders": ID, "bills": OTHER_ID}
    asked = {
        (name, each.partition): (each.fetch_offset, each.partition_max_bytes)
        for topic in request.topics
        for name in names
        if name == getattr(topic, "topic", None) or names[name] == getattr(topic, "topic_id", None)
        for each in topic.partitions
    }
    assert asked == {
        ("orders", 1): (101, 1000),
        ("orders", 2): (102, 1000),
        ("bills", 0): (100, 1000),
    }
    if version >= 9:
        epochs = {each.current_leader_epoch for one in request.topics for each in one.partitions}
        assert epochs == {7}


@pytest.mark.parametrize("version", versions(Api.FETCH))
def test_a_fetch_in_a_session(version: int) -> None:
    request = replace(
        fetch(ONE),
        session=SessionPlace(7, 3),
        forgotten=fetch(TWO, OTHER).partitions,
        rack="south",
    )
    built = theirs(request.build(version))
    if version >= 7:
        assert (built.session_id, built.session_epoch) == (7, 3)
        forgotten = [
            (getattr(each, "topic", None) or each.topic_id, each.partitions)
            for each in built.forgotten_topics_data
        ]
        orders, bills = (ID, OTHER_ID) if version >= 13 else ("orders", "bills")
        assert forgotten == [(orders, (2,)), (bills, (0,))]
    if version >= 11:
        assert built.rack_id == "south"


def test_a_response_of_a_session_leaves_out_what_has_nothing_new() -> None:
    response = ours(sample(response_type(Api.FETCH, 13), {"throttle_time": timedelta()}))
    fetched = replace(fetch(ONE, TWO), session=SessionPlace(7, 3)).read(response)
    assert list(fetched.partitions) == [ONE]
    assert not fetched.is_withheld


def test_an_empty_response_of_a_throttled_broker_is_withheld() -> None:
    throttled = {"responses": (), "throttle_time": timedelta(seconds=1)}
    response = ours(sample(response_type(Api.FETCH, 13), throttled))
    fetched = fetch(ONE).read(response)
    assert (fetched.partitions, fetched.is_withheld) == ({}, True)


@pytest.mark.parametrize("version", versions(Api.FETCH))
def test_topics_are_named_if_one_has_no_id(version: int) -> None:
    request = replace(fetch(ONE, OTHER), has_ids=False)
    payload = request.build(version)
    assert payload.version == min(version, 12)
    assert [each.topic for each in theirs(payload).topics] == ["orders", "bills"]


@pytest.mark.parametrize("version", versions(Api.FETCH))
def test_a_fetched_partition(version: int) -> None:
    response = ours(sample(response_type(Api.FETCH, version), {"records": b"batches"}))
    fetched = fetch(ONE).read(response)
    assert fetched.error_code == 0
    found = fetched.partitions[ONE]
    assert found.records == b"batches"
    assert (found.error_code, found.high_watermark, found.last_stable_offset) == (0, 5, 5)
    assert found.aborted == (AbortedTransaction(5, 5),)


@pytest.mark.parametrize("version", versions(Api.FETCH))
def test_null_arrays_are_empty(version: int) -> None:
    empty = {"records": None, "aborted_transactions": None}
    found = fetch(ONE).read(ours(sample(response_type(Api.FETCH, version), empty))).partitions[ONE]
    assert (found.records, found.aborted) == (b"", ())


def large_response(partitions: int) -> bytes:
    """A Fetch response v12, with an aborted transaction of each partition."""
    schema = response_schema(Api.FETCH)
    aborted = tuple(
        schema.AbortedTransaction(producer_id=number, first_offset=7) for number in (1, 2)
    )
    topics = tuple(
        schema.FetchableTopicResponse(
            topic=topic,
            partitions=tuple(
                schema.PartitionData(
                    partition_index=number,
                    high_watermark=number,
                    aborted_transactions=aborted if number % 2 else None,
                    records=b"records of %d" % number,
                )
                for number in range(partitions // 2)
            ),
        )
        for topic in ("orders", "bills")
    )
    response = schema.FetchResponse(session_id=7, responses=topics)
    return bytes(4) + b"\0" + schema.encode(response, 12)


def test_a_large_response_is_read_in_steps() -> None:
    """The same as one that is decoded at once."""
    wire = large_response(600)
    at_once = frames.decode_response(Api.FETCH, 12, wire).response
    refusals: list[ProtocolError] = []
    lazy = LazyResponse(Api.FETCH, 12, wire, on_refusal=refusals.append, on_left_over=pytest.fail)
    assert lazy.throttle_time_ms == at_once.throttle_time_ms
    steps, reading = 0, fetch(ONE).read(lazy)
    while True:
        try:
            next(reading)
        except StopIteration as end:
            found = end.value
            break
        steps += 1
    assert steps == 600 + 600 + 2 + 1
    assert not refusals
    assert found == fetch(ONE).read(at_once)
    assert found.partitions[ONE].aborted == (AbortedTransaction(1, 7), AbortedTransaction(2, 7))
    assert len(found.partitions) == 600


def test_a_large_response_that_is_damaged_ends_its_connection() -> None:
    refusals: list[ProtocolError] = []
    wire = large_response(600)[:-9]
    lazy = LazyResponse(Api.FETCH, 12, wire, on_refusal=refusals.append, on_left_over=pytest.fail)
    with pytest.raises(ProtocolError) as refused:
        list(fetch(ONE).read(lazy))
    assert refusals == [refused.value]


@pytest.mark.parametrize("version", versions(Api.FETCH))
def test_a_partition_that_lacks_is_a_protocol_error(version: int) -> None:
    with pytest.raises(ProtocolError, match="orders-2"):
        fetch(ONE, TWO).read(ours(sample(response_type(Api.FETCH, version))))


@pytest.mark.parametrize("version", versions(Api.OFFSET_FOR_LEADER_EPOCH))
def test_the_end_of_an_epoch(version: int) -> None:
    request = EpochEndRequest([EpochOfPosition(ONE, 7, 6)])
    built = theirs(request.build(version))
    ((topic,),) = (built.topics,)
    (asked,) = topic.partitions
    assert (built.replica_id, topic.topic, asked.partition) == (-1, "orders", 1)
    assert (asked.current_leader_epoch, asked.leader_epoch) == (7, 6)
    response = ours(sample(response_type(Api.OFFSET_FOR_LEADER_EPOCH, version)))
    assert request.read(response) == {ONE: EpochEnd(0, 1, 5)}
    with pytest.raises(ProtocolError, match="orders-2"):
        EpochEndRequest([EpochOfPosition(TWO, 7, 6)]).read(response)


OF_READERS: dict[Api, Request] = {
    Api.FETCH: fetch(ONE),
    Api.LIST_OFFSETS: ListOffsetsRequest({ONE: -1}),
    Api.OFFSET_FOR_LEADER_EPOCH: EpochEndRequest([EpochOfPosition(ONE, 7, 6)]),
}


@pytest.mark.parametrize(
    ("api", "version"), [(api, version) for api in OF_READERS for version in versions(api)]
)
def test_a_damaged_answer_is_a_value_or_a_protocol_error(api: Api, version: int) -> None:
    random = Random(f"{api} {version}")
    kind = response_type(api, version)
    wire = body(sample(kind, {"records": b"batches"}))
    outcomes = {True: 0, False: 0}
    for _ in range(300):
        broken = wire[:4] + damaged(wire[4:], random, changes=random.choice([1, 3]))
        try:
            frames.read_response(decode(kind, broken).response, OF_READERS[api].read)
            outcomes[True] += 1
        except ProtocolError:
            outcomes[False] += 1
    assert all(outcomes.values())
