"""Bytes out and bytes in; each is judged by kio's own reader and writer."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema
from kio.schema.request_header.v1.header import RequestHeader as RequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeaderV2
from kio.serial import entity_reader

from aioproducer.engine.accumulator import ProducerBatch
from aioproducer.engine.client.requests import MetadataRequest
from aioproducer.engine.cluster.metadata import Asked
from aioproducer.engine.network import frames
from aioproducer.engine.network.request import Request
from aioproducer.engine.network.versions import api_versions_request
from aioproducer.engine.protocol import SUPPORTED, Api
from aioproducer.engine.sender.produce import ProduceRequest
from aioproducer.engine.sender.producer_id import InitProducerIdRequest
from aioproducer.engine.transactions.requests import (
    FIRST_STABLE_VERSION,
)
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from aioproducer.model import (
    TopicPartition,
)
from tests.support.kio_messages import (
    decode,
    judged,
    milliseconds,
    response_bytes,
    response_type,
    sample,
)
from tests.unit.network.as_kio_reads import expected, plain

RECORDS = bytes(range(256)) * 3
EACH = [
    (api, version)
    for api in SUPPORTED
    for version in judged(api)
    # a producer asks for no offsets that an open transaction would change
    if api is not Api.OFFSET_FETCH or version >= FIRST_STABLE_VERSION
]
SOME = [
    *((Api.PRODUCE, 7), (Api.PRODUCE, 12), (Api.METADATA, 4), (Api.METADATA, 12)),
    *((Api.API_VERSIONS, 0), (Api.API_VERSIONS, 4), (Api.FETCH, 12), (Api.JOIN_GROUP, 5)),
]
"""Every form of a header, in front of small and large messages.

``tests/protocol/test_messages.py`` compares each message and version with kio's.
"""
TOPIC_ID = UUID(int=5)


def batch(topic: str = "orders", partition: int = 0) -> ProducerBatch:
    return ProducerBatch(TopicPartition(topic, partition), bytearray(100), 100, 0.0, 1.0)


def payload(api: Api, version: int) -> frames.EncodedPayload:
    if api is Api.API_VERSIONS:
        return api_versions_request(version, "1.2.3")
    request: Request = InitProducerIdRequest()
    if api is Api.PRODUCE:
        request = ProduceRequest([(batch(), RECORDS_VIEW)], -1, 30_000, {"orders": TOPIC_ID})
    elif api is Api.METADATA:
        request = MetadataRequest(Asked(frozenset({"orders", "a"}), full=True))
    return request.build(version)


RECORDS_VIEW = memoryview(bytearray(RECORDS))


def framed(request: frames.EncodedPayload, number: int, client_id: str) -> bytes:
    form = frames.request_form(request.api, request.version, client_id)
    pieces, size = frames.encode_request(request.parts, number, form)
    written = b"".join(pieces)
    assert len(written) == size
    return written


# --- out ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("api", "version"),
    [
        (api, version)
        for api in (Api.PRODUCE, Api.METADATA, Api.API_VERSIONS, Api.INIT_PRODUCER_ID)
        for version in judged(api)
    ],
)
@pytest.mark.parametrize("number", [1, 2**31 - 1])
def test_a_request_is_one_frame_that_kio_reads_back(api: Api, version: int, number: int) -> None:
    frame = framed(payload(api, version), number, "producer-1")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    # api key, version and correlation id come first in every version of the header
    assert int.from_bytes(frame[4:6], "big") == int(api)
    assert int.from_bytes(frame[6:8], "big") == version
    assert int.from_bytes(frame[8:12], "big") == number
    kind: Any = load_request_schema(api, version)
    assert kind.__header_schema__ in (RequestHeaderV1, RequestHeaderV2)
    header, used = entity_reader(kind.__header_schema__)(frame, 4)
    assert (header.correlation_id, header.client_id) == (number, "producer-1")
    read, length = entity_reader(kind)(frame, 4 + used)
    assert 4 + used + length == len(frame)
    if api is Api.PRODUCE:
        (topic,) = read.topic_data
        (partition,) = topic.partition_data
        assert bytes(partition.records) == RECORDS
        assert (read.acks, read.timeout) == (-1, datetime.timedelta(seconds=30))
        assert (topic.topic_id if version >= 13 else topic.name) == (
            TOPIC_ID if version >= 13 else "orders"
        )
    elif api is Api.METADATA:
        assert [topic.name for topic in read.topics] == ["a", "orders"]
        assert [getattr(topic, "topic_id", None) for topic in read.topics] == [None, None]
        assert read.allow_auto_topic_creation
        assert not getattr(read, "include_topic_authorized_operations", False)
        assert not getattr(read, "include_cluster_authorized_operations", False)
    elif api is Api.INIT_PRODUCER_ID:
        assert (read.transactional_id, read.transaction_timeout) == (None, milliseconds(2**31 - 1))
    elif version >= 3:
        named = (read.client_software_name, read.client_software_version)
        assert named == ("aioproducer", "1.2.3")


def test_the_client_id_may_be_any_text() -> None:
    frame = framed(payload(Api.METADATA, 9), 1, "grün 🦆")
    header, _ = entity_reader(RequestHeaderV2)(frame, 4)
    assert header.client_id == "grün 🦆"


@pytest.mark.parametrize("sizes", [(5,), (70_000,), (70_000, 3, 80_000), (3, 70_000, 3)])
def test_large_parts_go_to_the_socket_uncopied_and_small_ones_together(
    sizes: tuple[int, ...],
) -> None:
    parts = [bytes([number]) * size for number, size in enumerate(sizes, 65)]
    form = frames.request_form(Api.PRODUCE, 9, "c")
    pieces, size = frames.encode_request(parts, 1, form)
    assert b"".join(pieces).endswith(b"".join(parts))
    assert sum(map(len, pieces)) == size
    large = [part for part in parts if len(part) > 50_000]
    assert [piece for piece in pieces if len(piece) > 50_000] == large
    assert all(any(piece is part for piece in pieces) for part in large)
    assert len(pieces) <= 2 * len(large) + 1


# --- what arrives -------------------------------------------------------------------------------


def cut(*chunks: bytes) -> list[bytes]:
    cutter = frames.ResponseCutter()
    bodies = []
    for chunk in chunks:
        cutter.feed(chunk)
        while (body := cutter.take()) is not None:
            bodies.append(body)
    return bodies


@given(st.lists(st.binary(min_size=4, max_size=60), max_size=6), st.data())
def test_responses_come_out_whole_however_they_come(bodies: list[bytes], data: Any) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    ends = sorted(data.draw(st.sets(st.integers(0, len(stream)))) | {0, len(stream)})
    chunks = [stream[start:end] for start, end in itertools.pairwise(ends)]
    assert cut(*chunks) == bodies


def test_a_large_response_in_large_and_small_pieces() -> None:
    body = random.Random(4).randbytes(200_000)
    stream = len(body).to_bytes(4, "big") + body + b"\0\0\0\4next"
    for sizes in ([65_536], [1], [4_096, 1, 1, 5_000, 3], [200_006], [200_004, 8]):
        chunks, place = [], 0
        for size in itertools.cycle(sizes):
            chunks.append(stream[place : place + size])
            place += size
            if place >= len(stream):
                break
        assert cut(*chunks) == [body, b"next"]


def test_single_bytes_are_not_kept_one_by_one() -> None:
    cutter = frames.ResponseCutter()
    cutter.feed(b"\0\1\0\0")
    assert cutter.take() is None
    for _ in range(60_000):
        cutter.feed(b"x")
        assert cutter.take() is None
    assert len(cutter._held) < 40
    assert len(cutter.partial) == 60_004


def test_a_large_response_is_read_into_memory_of_its_own_which_the_next_one_gets_too() -> None:
    cutter, kept = frames.ResponseCutter(), []
    for size in (200_000, 2_500_000, 150_000):
        body = random.Random(size).randbytes(size)
        cutter.feed(size.to_bytes(4, "big") + body[:10])
        assert cutter.take() is None
        place, whole = 10, None
        while whole is None:
            assert cutter.is_large
            step = min(len(cutter.place), 70_000)
            cutter.place[:step] = body[place : place + step]
            place += step
            whole = cutter.fill(step)
            if whole is None:
                assert cutter.partial == size.to_bytes(4, "big") + body[:place]
        assert whole == body
        assert not cutter.is_large
        assert cutter.is_between
        assert cutter.partial == b""
        kept.append(cutter._kept)
    assert [len(each) for each in kept] == [199_990, 2**20, 2**20]
    assert kept[1] is kept[2]


def test_what_came_before_a_bad_length_is_whole() -> None:
    cutter = frames.ResponseCutter()
    cutter.feed(b"\0\0\0\4good" + b"\x7f\xff\xff\xff" + bytes(100))
    assert cutter.take() == b"good"
    with pytest.raises(ProtocolError, match="2147483647"):
        cutter.take()


def test_a_bad_length_is_refused_before_anything_else_has_come() -> None:
    with pytest.raises(ProtocolError):
        cut(b"\x7f", b"\xff\xff", b"\xff")


@pytest.mark.parametrize("rest", [b"", b"\0", b"\0\0\0\5", b"\0\0\0\5half"])
def test_what_is_left_of_a_response_that_was_cut_off(rest: bytes) -> None:
    cutter = frames.ResponseCutter()
    cutter.feed(b"\0\0\0\4good" + rest)
    assert cutter.take() == b"good"
    assert cutter.take() is None
    assert cutter.partial == rest


# --- the length of a response -------------------------------------------------------------------


@pytest.mark.parametrize("length", [4, 5, 4096, 100 * 1024 * 1024])
def test_lengths_that_may_be(length: int) -> None:
    assert frames.response_length(length.to_bytes(4, "big")) == length


@pytest.mark.parametrize(
    ("prefix", "said"),
    [
        ((0).to_bytes(4, "big"), "response of 0 bytes"),
        ((1).to_bytes(4, "big"), "response of 1 bytes"),
        ((3).to_bytes(4, "big"), "response of 3 bytes"),
        ((-1).to_bytes(4, "big", signed=True), "response of -1 bytes"),
        ((-(2**31)).to_bytes(4, "big", signed=True), "response of -2147483648 bytes"),
        ((100 * 1024 * 1024 + 1).to_bytes(4, "big"), "response of 104857601 bytes"),
        ((2**31 - 1).to_bytes(4, "big"), "response of 2147483647 bytes"),
        (b"\x15\x03\x03\x00", "speaks TLS"),
        (b"\x15\x03\x01\x00", "speaks TLS"),
        (b"\x16\x03\x03\x00", "speaks TLS"),
        (b"HTTP", "HTTP server"),
        (b"SSH-", "Is it a Kafka broker"),
        (b"220 ", "Is it a Kafka broker"),
        (b"<htm", "Is it a Kafka broker"),
    ],
)
def test_absurd_lengths_are_refused_before_memory_is_taken(prefix: bytes, said: str) -> None:
    with pytest.raises(ProtocolError, match=said):
        frames.response_length(prefix)


# --- in -----------------------------------------------------------------------------------------


def response(api: Api, version: int) -> Any:
    """A response of that version, as full as it gets."""
    return sample(response_type(api, version), {"partition_index": 0}, entries=2)


def body(entity: Any, number: int = 1) -> bytes:
    return response_bytes(entity, number)


@pytest.mark.parametrize("api", SUPPORTED)
def test_a_version_that_is_not_spoken_is_not_read(api: Api) -> None:
    lowest, highest = SUPPORTED[api]
    for version in (lowest - 1, highest + 1):
        with pytest.raises(ProtocolError, match=f"has no version {version}"):
            frames.decode_response(api, version, bytes(100))


@pytest.mark.parametrize(("api", "version"), SOME)
def test_bytes_left_over_are_counted_and_do_no_harm(api: Api, version: int) -> None:
    """librdkafka's mock cluster ends Metadata from version 9 on with a stray byte."""
    sent = response(api, version)
    wire = body(sent)
    for rest in (b"\0", b"\0" * 100, wire):
        read = decode(response_type(api, version), wire + rest)
        assert (plain(read.response), read.left_over) == (expected(sent), len(rest))


@pytest.mark.parametrize(("api", "version"), SOME)
def test_a_truncated_body_is_refused_wherever_it_ends(api: Api, version: int) -> None:
    wire = body(response(api, version))
    kind = response_type(api, version)
    for end in range(4, len(wire)):
        with pytest.raises(ProtocolError) as caught:
            decode(kind, wire[:end])
        assert kind.__name__ in str(caught.value)
        assert f"version {version}" in str(caught.value)


def with_code(entity: Any, code: ErrorCode) -> Any:
    """``entity``, one of kio's, with ``code`` wherever it has an error code."""
    changed: dict[str, Any] = {}
    for each in dataclasses.fields(entity):
        value = getattr(entity, each.name)
        if each.name.endswith("error_code"):
            changed[each.name] = code
        elif isinstance(value, tuple):
            changed[each.name] = tuple(
                with_code(inner, code) if dataclasses.is_dataclass(inner) else inner
                for inner in value
            )
    return dataclasses.replace(entity, **changed)


@pytest.mark.parametrize("code", [max(ErrorCode) + 1, -32768])
@pytest.mark.parametrize(("api", "version"), SOME)
def test_an_error_code_that_nobody_knows_stays_a_number(api: Api, version: int, code: int) -> None:
    """A response with a code of tomorrow is read like any other, in all that it says besides."""
    stand_in = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    known = with_code(response(api, version), stand_in)
    marked = int(stand_in).to_bytes(2, "big")
    wire = body(known).replace(marked, code.to_bytes(2, "big", signed=True))
    assert wire != body(known)
    read = decode(response_type(api, version), wire).response
    assert plain(read) == expected(known, code)


def test_a_telemetry_subscription_of_more_metrics_than_there_are_is_refused() -> None:
    """The event loop would wait for its decoder. Any other response may be as long."""
    size = 1024 * 1024 + 1
    with pytest.raises(ProtocolError, match=f"a telemetry subscription of {size} bytes is refused"):
        frames.decode_response(Api.GET_TELEMETRY_SUBSCRIPTIONS, 0, bytes(size))
    assert frames.decode_response(Api.GET_TELEMETRY_SUBSCRIPTIONS, 0, bytes(size - 1)).left_over
    assert frames.decode_response(Api.INIT_PRODUCER_ID, 5, bytes(size)).left_over


def test_text_that_is_no_utf8_is_a_protocol_error() -> None:
    wire = body(response(Api.PRODUCE, 7)).replace(b"orders", b"\xff\xfe\xfd\xfc\xfb\xfa")
    with pytest.raises(ProtocolError, match="ProduceResponse"):
        decode(response_type(Api.PRODUCE, 7), wire)


@pytest.mark.parametrize(("api", "version"), SOME)
@settings(max_examples=30)
@given(data=st.data())
def test_garbage_is_a_protocol_error_or_a_response_and_nothing_else(
    api: Api, version: int, data: st.DataObject
) -> None:
    wire = bytearray(body(response(api, version)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(4, len(wire) - 1))
        wire[place : place + 5] = data.draw(
            st.sampled_from([b"\xff\xff\xff\xff\x07", b"\x7f\xff\xff\xff\xff"])
            | st.binary(min_size=1, max_size=5)
        )
    with contextlib.suppress(ProtocolError):
        decode(response_type(api, version), bytes(wire))
