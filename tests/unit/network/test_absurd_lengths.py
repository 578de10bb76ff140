"""Lengths that the bytes left can't hold are refused before anything is made for them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from aioproducer.engine.network import frames
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.errors import ProtocolError
from tests.support.kio_messages import response_type

THROTTLE = bytes(4)
LOGIN, IDENTITY = Api.SASL_AUTHENTICATE, Api.INIT_PRODUCER_ID
HEARTBEAT, VERSIONS = Api.CONSUMER_GROUP_HEARTBEAT, Api.API_VERSIONS


def head(api: Api, version: int) -> bytes:
    """The header of a response."""
    return bytes(5 if response_type(api, version).__header_schema__.__flexible__ else 4)


def compact(length: int) -> bytes:
    """The length of a list as flexible versions write it."""
    rest = length + 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*out, rest])


def plain(length: int) -> bytes:
    return length.to_bytes(4, "big", signed=True)


LISTS = [
    pytest.param(Api.METADATA, 4, THROTTLE, "brokers", 12, id="brokers"),
    pytest.param(Api.METADATA, 13, THROTTLE, "brokers", 11, id="brokers, flexible"),
    pytest.param(
        Api.METADATA,
        4,
        THROTTLE + plain(0) + b"\xff\xff" + plain(1),
        "topics",
        9,
        id="topics",
    ),
    pytest.param(
        Api.METADATA,
        13,
        THROTTLE + compact(0) + b"\0" + plain(1),
        "topics",
        26,
        id="topics, flexible",
    ),
    pytest.param(Api.API_VERSIONS, 0, b"\0\0", "api_keys", 6, id="api keys"),
    pytest.param(Api.API_VERSIONS, 4, b"\0\0", "api_keys", 7, id="api keys, flexible"),
    pytest.param(
        Api.API_VERSIONS,
        4,
        b"\0\0" + compact(0) + THROTTLE + b"\1\0\1",
        "supported_features",
        6,
        id="in a tagged field",
    ),
    pytest.param(Api.PRODUCE, 7, b"", "responses", 6, id="topics of a produce response"),
    pytest.param(Api.PRODUCE, 13, b"", "responses", 18, id="the same, flexible"),
    pytest.param(Api.PRODUCE, 7, plain(1) + b"\0\1t", "partition_responses", 30, id="partitions"),
    pytest.param(
        Api.PRODUCE,
        13,
        compact(1) + bytes(16),
        "partition_responses",
        33,
        id="partitions, flexible",
    ),
    pytest.param(
        Api.PRODUCE,
        13,
        compact(1) + bytes(16) + compact(1) + bytes(30),
        "record_errors",
        6,
        id="record errors",
    ),
    pytest.param(Api.SASL_HANDSHAKE, 1, b"\0\0", "mechanisms", 2, id="texts"),
    pytest.param(
        Api.METADATA,
        8,
        THROTTLE
        + plain(0)
        + b"\xff\xff"
        + plain(1)
        + plain(1)
        + b"\0\0\0\1t\0"
        + plain(1)
        + bytes(14),
        "replica_nodes",
        4,
        id="numbers",
    ),
]
"""What stands before a list, its name, and the fewest bytes of an element."""


def begun(api: Api, version: int, before: bytes, length: int) -> bytes:
    """A response up to a list of that length."""
    flexible = response_type(api, version).__flexible__
    return head(api, version) + before + (compact(length) if flexible else plain(length))


@pytest.mark.parametrize("length", [3, 1000, 2**24, 2**31 - 1])
@pytest.mark.parametrize(("api", "version", "before", "name", "least"), LISTS)
def test_a_list_longer_than_the_rest_is_refused(
    api: Api, version: int, before: bytes, name: str, least: int, length: int
) -> None:
    begin = begun(api, version, before, length)
    left = min(length * least - 1, 5000)
    said = f"ProtocolError: {name} announces {length} elements, but only {left} bytes follow"
    with pytest.raises(ProtocolError, match=said):
        frames.decode_response(api, version, begin + bytes(left))


@pytest.mark.parametrize(("api", "version", "before", "name", "least"), LISTS)
def test_a_list_that_the_rest_may_hold_is_read(
    api: Api, version: int, before: bytes, name: str, least: int
) -> None:
    """What else is wrong is found where it is."""
    said = ""
    try:
        frames.decode_response(api, version, begun(api, version, before, 3) + bytes(least * 3))
    except ProtocolError as error:
        said = str(error)
    assert f"{name} announces" not in said


@pytest.mark.parametrize("version", [4, 13])
def test_a_null_list_is_an_empty_one(version: int) -> None:
    """Some peers write it for a list that can't be null by its definition."""
    begin = begun(Api.METADATA, version, THROTTLE, -1)
    rest = b"\0" + plain(1) + compact(-1) + b"\0\0" + b"\0"
    if version < 9:
        rest = b"\xff\xff" + plain(1) + plain(-1)
    read = frames.decode_response(Api.METADATA, version, begin + rest)
    assert (read.response.brokers, read.response.topics, read.left_over) == ((), (), 0)


@pytest.mark.parametrize(
    ("api", "version", "before", "said"),
    [
        pytest.param(LOGIN, 1, b"\0\0\0\4", "error_message announces 4 bytes", id="text"),
        pytest.param(LOGIN, 2, b"\0\0\5", "error_message announces 4 bytes", id="compact text"),
        pytest.param(
            LOGIN, 1, b"\0\0\xff\xff" + plain(4), "auth_bytes announces 4 bytes", id="bytes"
        ),
        pytest.param(
            LOGIN,
            2,
            b"\0\0\0" + b"\xff\xff\xff\xff\x0f",
            "auth_bytes announces 4294967294 bytes",
            id="compact bytes",
        ),
        pytest.param(
            IDENTITY, 5, bytes(16) + b"\2", "tagged fields announces 2 elements", id="tagged fields"
        ),
        pytest.param(
            IDENTITY, 5, bytes(16) + b"\1\7\4", "a tagged field announces 4 bytes", id="one of them"
        ),
    ],
)
def test_other_lengths_than_those_of_lists(
    api: Api, version: int, before: bytes, said: str
) -> None:
    with pytest.raises(ProtocolError, match=f"{said}, but only 3 bytes follow"):
        frames.decode_response(api, version, head(api, version) + before + b"abc")


def assigned(partitions: int) -> bytes:
    """A heartbeat's response with so many partitions of a topic."""
    schema = response_schema(HEARTBEAT)
    topic = schema.TopicPartitions(partitions=tuple(range(partitions)))
    given = schema.Assignment(topic_partitions=(topic,))
    return head(HEARTBEAT, 0) + schema.encode(
        schema.ConsumerGroupHeartbeatResponse(assignment=given), 0
    )


def features(number: int) -> bytes:
    """A response of ApiVersions that names so many features, in a tagged field."""
    schema = response_schema(VERSIONS)
    named = tuple(schema.SupportedFeatureKey(name="f") for _ in range(number))
    return bytes(4) + schema.encode(schema.ApiVersionsResponse(supported_features=named), 4)


def tagged(number: int) -> bytes:
    """The response to InitProducerId, with so many tagged fields that are not known."""
    return head(IDENTITY, 5) + bytes(16) + compact(number - 1) + b"\x0a\0" * number


def explained(length: int) -> bytes:
    """The response to SaslAuthenticate, with so long a message."""
    return head(LOGIN, 2) + b"\0\0" + compact(length) + b"e" * length + b"\1" + bytes(9)


@pytest.mark.parametrize(
    ("api", "version", "body", "most", "said"),
    [
        (HEARTBEAT, 0, assigned, 262_144, "partitions announces 262145 elements; at most 262144"),
        (VERSIONS, 4, features, 10_000, "supported_features announces 10001 elements; at most"),
        (IDENTITY, 5, tagged, 16, "tagged fields announces 17 elements; at most 16"),
        (LOGIN, 2, explained, 32_767, "error_message announces 32768 bytes; at most 32767"),
    ],
)
def test_what_is_read_at_once_has_a_bound(
    api: Api, version: int, body: Callable[[int], bytes], most: int, said: str
) -> None:
    """The other lists of a large response are read in steps."""
    assert frames.decode_response(api, version, body(most)).left_over == 0
    with pytest.raises(ProtocolError, match=said):
        frames.decode_response(api, version, body(most + 1))


@pytest.mark.parametrize("version", [9, 13])
def test_a_corrupt_response_takes_no_memory(version: int) -> None:
    """4 294 967 294 brokers would take 34 GB before the first one is read."""
    body = bytes(9) + bytes.fromhex("ffffffff0f") + bytes(50)
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="brokers announces 4294967294 elements"):
            frames.decode_response(Api.METADATA, version, body)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 1_000_000
