"""Produce requests and responses, v7 to v13; both go over the wire through kio."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.cluster.snapshot import PartitionLeader
from aioproducer.engine.network.frames import throttle_seconds
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.engine.sender.produce import PartitionResult, ProduceRequest
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from aioproducer.foundation import tuning
from aioproducer.model import Node, TopicPartition
from tests.support.kio_messages import (
    decode,
    encode,
    ours,
    request_module,
    response_module,
    response_type,
    theirs,
)

LOWEST, HIGHEST = SUPPORTED[Api.PRODUCE]
VERSIONS = range(LOWEST, HIGHEST + 1)
IDS: Mapping[str, UUID | None] = {"orders": UUID(int=1), "events": UUID(int=2)}


def batch(topic: str, partition: int) -> ProducerBatch:
    return ProducerBatch(TopicPartition(topic, partition), bytearray(100), 100, 0.0, 1.0)


def request(
    *places: tuple[str, int], acks: int = -1, ids: Mapping[str, UUID | None] = IDS
) -> ProduceRequest:
    batches = [(batch(*place), bytearray(f"{place[0]}{place[1]}".encode())) for place in places]
    return ProduceRequest(batches, acks, 30_000, {topic: ids.get(topic) for topic, _ in places})


# --- requests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
def test_one_request_for_several_topics_and_partitions(version: int) -> None:
    made = request(("orders", 0), ("events", 5), ("orders", 2), acks=1)
    read = theirs(made.build(version))
    assert (int(read.__api_key__), int(read.__version__)) == (0, version)
    assert (read.transactional_id, read.acks) == (None, 1)
    assert read.timeout == datetime.timedelta(seconds=30)
    names = {UUID(int=1): "orders", UUID(int=2): "events"}
    content = [
        (
            names[topic.topic_id] if version >= 13 else topic.name,
            [(each.index, bytes(each.records)) for each in topic.partition_data],
        )
        for topic in read.topic_data
    ]
    assert content == [
        ("orders", [(0, b"orders0"), (2, b"orders2")]),
        ("events", [(5, b"events5")]),
    ]


@pytest.mark.parametrize("version", VERSIONS)
@given(
    batches=st.lists(
        st.tuples(
            st.sampled_from(["orders", "events"]),
            st.integers(0, 2**31 - 1),
            st.binary(max_size=300) | st.integers(2**14 - 2, 2**14 + 1).map(bytes),
        ),
        max_size=8,
    ),
    acks=st.sampled_from([-1, 0, 1]),
    timeout_ms=st.integers(0, 2**31 - 1),
)
def test_it_is_the_request_that_kio_would_write(
    version: int, batches: list[tuple[str, int, bytes]], acks: int, timeout_ms: int
) -> None:
    made = ProduceRequest(
        [(batch(topic, number), bytearray(data)) for topic, number, data in batches],
        acks,
        timeout_ms,
        IDS,
    ).build(version)
    module = request_module(Api.PRODUCE, version)
    by_topic: dict[str, list[Any]] = {}
    for topic, number, data in batches:
        partition = module.PartitionProduceData(index=number, records=data)
        by_topic.setdefault(topic, []).append(partition)
    whole = module.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout=datetime.timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            module.TopicProduceData(
                **({"topic_id": IDS[topic]} if version >= 13 else {"name": topic}),
                partition_data=tuple(partitions),
            )
            for topic, partitions in by_topic.items()
        ),
    )
    assert b"".join(made.parts) == encode(whole)


def test_a_topic_that_was_made_anew_goes_by_its_new_id() -> None:
    for number in (1, 2, 1):
        made = request(("orders", 0), ids={"orders": UUID(int=number)})
        (topic,) = theirs(made.build(13)).topic_data
        assert topic.topic_id == UUID(int=number)


@pytest.mark.parametrize("version", [HIGHEST, 9, LOWEST])
def test_more_partitions_than_are_remembered(monkeypatch: pytest.MonkeyPatch, version: int) -> None:
    monkeypatch.setattr(tuning, "PLACES_REMEMBERED", 3)
    for number in [*range(5), *range(5)]:
        (topic,) = theirs(request(("orders", number)).build(version)).topic_data
        (partition,) = topic.partition_data
        assert (partition.index, bytes(partition.records)) == (number, b"orders%d" % number)


@pytest.mark.parametrize(
    ("ids", "version"),
    [
        ({"orders": UUID(int=1), "events": UUID(int=2)}, 13),
        ({"orders": UUID(int=1), "events": None}, 12),
        ({"orders": UUID(int=1)}, 12),
        ({}, 12),
    ],
)
def test_a_topic_whose_id_is_unknown_goes_by_name(
    ids: Mapping[str, UUID | None], version: int
) -> None:
    built = request(("orders", 0), ("events", 0), ids=ids).build(13)
    assert built.version == version


@pytest.mark.parametrize(("acks", "answered"), [(-1, True), (1, True), (0, False)])
def test_without_acks_there_is_no_answer(acks: int, answered: bool) -> None:
    assert request(("orders", 0), acks=acks).answered is answered


# --- responses ----------------------------------------------------------------------------------


def response(version: int, *said: Any) -> Any:
    """The response of :func:`their_response` as our decoder reads it."""
    return ours(their_response(version, *said))


def their_response(
    version: int,
    answers: Sequence[tuple[str, int, Mapping[str, Any]]],
    nodes: Sequence[tuple[int, str, int, str | None]] = (),
) -> Any:
    """``answers``: topic, partition, what is said of it."""
    parts: Any = response_module(Api.PRODUCE, version)
    known = {field.name for field in fields(parts.PartitionProduceResponse)}

    def partition(index: int, said: Mapping[str, Any]) -> Any:
        values: dict[str, Any] = {"error_code": ErrorCode.NONE, "base_offset": 0, **said}
        values["record_errors"] = tuple(
            parts.BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=text)
            for at, text in values.get("record_errors", ())
            if "record_errors" in known
        )
        if "current_leader" in values and "current_leader" in known:
            leader, epoch = values["current_leader"]
            values["current_leader"] = parts.LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
        return parts.PartitionProduceResponse(
            index=index, **{name: value for name, value in values.items() if name in known}
        )

    def identified(topic: str) -> dict[str, Any]:
        return {"topic_id": IDS[topic]} if version >= 13 else {"name": topic}

    endpoints: dict[str, Any] = {}
    if nodes and version >= 10:
        endpoints["node_endpoints"] = tuple(
            parts.NodeEndpoint(node_id=number, host=host, port=port, rack=rack)
            for number, host, port, rack in nodes
        )
    return parts.ProduceResponse(
        responses=tuple(
            parts.TopicProduceResponse(
                **identified(topic), partition_responses=(partition(index, said),)
            )
            for topic, index, said in answers
        ),
        **endpoints,
    )


def read(
    made: ProduceRequest, answer: Any
) -> tuple[dict[TopicPartition, PartitionResult], Mapping[int, Node]]:
    produced = made.read(answer)
    return (
        {each.topic_partition: result for each, result in produced.results.items()},
        produced.nodes,
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_each_batch_gets_its_own_answer_in_whatever_order(version: int) -> None:
    made = request(("orders", 0), ("events", 0), ("orders", 1))
    results, nodes = read(
        made,
        response(
            version,
            [
                ("orders", 1, {"base_offset": 11}),
                ("events", 0, {"base_offset": 2**63 - 1}),
                ("orders", 0, {"base_offset": 10}),
            ],
        ),
    )
    assert {str(place): result.base_offset for place, result in results.items()} == {
        "orders-0": 10,
        "orders-1": 11,
        "events-0": 2**63 - 1,
    }
    for result in results.values():
        assert (result.error_code, result.log_append_time_ms, result.message) == (0, -1, None)
        assert not result.record_errors
        assert result.leader is None
    assert not nodes


@pytest.mark.parametrize("version", VERSIONS)
def test_a_batch_that_the_response_lacks_is_not_in_the_results(version: int) -> None:
    made = request(("orders", 0), ("orders", 1), ("events", 0))
    results, _ = read(made, response(version, [("orders", 0, {})]))
    assert set(map(str, results)) == {"orders-0"}
    assert read(made, response(version, [])) == ({}, {})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "told",
    [
        pytest.param([("orders", 0), ("orders", 7)], id="partition"),
        pytest.param([("orders", 0), ("orders", -1)], id="negative"),
        pytest.param([("orders", 0), ("events", 0)], id="topic"),
        pytest.param([("orders", 0), ("orders", 0)], id="twice"),
    ],
)
def test_partitions_that_were_not_asked_for_make_all_of_it_unbelievable(
    version: int, told: list[tuple[str, int]]
) -> None:
    made = request(("orders", 0))
    said = response(version, [(topic, number, {}) for topic, number in told])
    with pytest.raises(ProtocolError, match="not in the request, or has it twice"):
        read(made, said)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_RECORD])
def test_an_offset_that_cannot_be(version: int, code: ErrorCode) -> None:
    said = {"base_offset": -2, "error_code": code}
    with pytest.raises(ProtocolError, match="offset -2"):
        read(request(("orders", 0)), response(version, [("orders", 0, said)]))


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_null_where_a_list_of_record_errors_belongs_is_an_empty_list(version: int) -> None:
    made = response(version, [("orders", 0, {"error_code": ErrorCode.INVALID_RECORD})])
    (topic,) = made.responses
    (partition,) = topic.partition_responses
    partition = partition._replace(record_errors=None)
    said = made._replace(responses=(topic._replace(partition_responses=(partition,)),))
    results, _ = read(request(("orders", 0)), said)
    (result,) = results.values()
    assert result.error_code == 87
    assert not result.record_errors


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("milliseconds", [0, 1, 1_700_000_000_123, 253_402_300_799_000])
def test_log_append_time_to_the_millisecond(version: int, milliseconds: int) -> None:
    moment = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
        milliseconds=milliseconds
    )
    results, _ = read(
        request(("orders", 0)), response(version, [("orders", 0, {"log_append_time": moment})])
    )
    (result,) = results.values()
    assert result.log_append_time_ms == milliseconds


@pytest.mark.parametrize("version", VERSIONS)
def test_errors_of_the_batch_and_of_its_records(version: int) -> None:
    said = {
        "error_code": ErrorCode.INVALID_RECORD,
        "base_offset": -1,
        "error_message": "bad",
        "record_errors": [(0, "no key"), (3, None)],
    }
    results, _ = read(request(("orders", 0)), response(version, [("orders", 0, said)]))
    (result,) = results.values()
    assert (result.error_code, result.base_offset) == (87, -1)
    assert type(result.error_code) is int
    assert result.message == ("bad" if version >= 8 else None)
    assert dict(result.record_errors or {}) == ({0: "no key", 3: None} if version >= 8 else {})


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("leader", "hint"),
    [
        ((2, 9), PartitionLeader(5, 2, 9)),
        ((2, 0), PartitionLeader(5, 2, 0)),
        ((-1, -1), None),
        ((2, -1), None),
        ((-1, 9), None),
        ((2, -7), None),
    ],
)
def test_the_new_leader_and_its_address(
    version: int, leader: tuple[int, int], hint: PartitionLeader | None
) -> None:
    said = {"error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER, "current_leader": leader}
    results, nodes = read(
        request(("orders", 5)),
        response(
            version,
            [("orders", 5, said)],
            [(2, "::1", 9093, "rack"), (3, "h", 1, None), (-1, "no", 1, None)],
        ),
    )
    (result,) = results.values()
    if version >= 10:
        assert result.leader == hint
        assert nodes == {2: Node(2, "::1", 9093, "rack"), 3: Node(3, "h", 1)}
    else:
        assert result.leader is None
        assert not nodes


def test_a_topic_made_anew_in_between_answers_under_the_id_that_was_asked() -> None:
    made = request(("orders", 0), ids={"orders": UUID(int=9)})
    with pytest.raises(ProtocolError):  # another topic of that name
        read(made, response(13, [("orders", 0, {})]))


# --- usual responses ----------------------------------------------------------------------------

PLACES = [("orders", 0), ("orders", 1), ("orders", 300), ("events", 0)]
NUMBERS = st.integers(0, 2**63 - 1)
TIMES = st.none() | st.datetimes(
    datetime.datetime(1970, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.UTC)
).map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000))
SAID = st.fixed_dictionaries(
    {"base_offset": NUMBERS, "log_append_time": TIMES, "log_start_offset": NUMBERS}
)
ODD = st.fixed_dictionaries(
    {"base_offset": NUMBERS},
    optional={
        "error_code": st.sampled_from([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]),
        "error_message": st.text(max_size=3),
        "record_errors": st.just([(0, "no")]),
        "current_leader": st.just((2, 5)),
    },
)


def frame_of(entity: Any) -> bytes:
    """A response as a broker sends it, behind its length."""
    return bytes(4) + b"\0" * (int(entity.__version__) >= 9) + encode(entity)


def long_way(made: ProduceRequest, version: int, body: bytes) -> Any:
    decoded = decode(response_type(Api.PRODUCE, version), body)
    return made.read(decoded.response), throttle_seconds(decoded.response), decoded.left_over


def is_as_on_the_long_way(usual: Any, made: ProduceRequest, version: int, body: bytes) -> bool:
    """True if both ways read the same, and there is nothing else to read."""
    places, pause = usual
    found = [
        PartitionResult(0, offset, time, None, None, None, start) for offset, time, start in places
    ]
    read, *rest = long_way(made, version, body)
    same = found == [read.results[batch] for batch, _ in made.batches]
    return (
        same
        and (len(read.results), {}, {}) == (len(places), read.leaders, read.nodes)
        and rest == [pause, 0]
    )


@given(
    version=st.sampled_from(VERSIONS),
    places=st.lists(st.sampled_from(PLACES), min_size=1, unique=True),
    data=st.data(),
    pause=st.sampled_from([0, 1, 999, 1_000, 1_001, 60_000]),
)
def test_the_usual_response_is_read_as_on_the_long_way(
    version: int, places: list[tuple[str, int]], data: st.DataObject, pause: int
) -> None:
    made = request(*places)
    kind: Any = data.draw(st.sampled_from([SAID, SAID, ODD]))
    said = their_response(version, [(*place, data.draw(kind)) for place in places])
    said = replace(said, throttle_time=datetime.timedelta(milliseconds=pause))
    body = frame_of(said)
    read_usual = made.build(version).read_usual
    if version < 9:
        assert read_usual is None
        return
    assert read_usual is not None
    usual = read_usual(body)
    if kind is SAID and pause <= 1_000:
        assert usual is not None
    if usual is not None:
        assert is_as_on_the_long_way(usual, made, version, body)


@given(
    version=st.integers(9, HIGHEST),
    places=st.sampled_from([[("orders", 0), ("events", 7)], [("orders", 0)]]),
    changes=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(range(0, 256)), st.sampled_from("=+-")),
        min_size=1,
        max_size=3,
    ),
)
def test_a_damaged_response_is_not_taken_for_the_usual_one(
    version: int, places: list[tuple[str, int]], changes: list[tuple[float, int, str]]
) -> None:
    made = request(*places)
    whole = frame_of(their_response(version, [(*place, {"base_offset": 9}) for place in places]))
    body = bytearray(whole)
    for place, value, change in changes:
        at = 4 + round(place * (len(body) - 5))
        match change:
            case "=":
                body[at] = value
            case "+":
                body.insert(at, value)
            case "-":
                del body[at]
    read_usual = made.build(version).read_usual
    assert read_usual is not None
    usual = read_usual(bytes(body))
    if usual is not None:
        assert is_as_on_the_long_way(usual, made, version, bytes(body))


def test_without_responses_there_is_no_usual_one() -> None:
    assert request(("orders", 0), acks=0).build(HIGHEST).read_usual is None
