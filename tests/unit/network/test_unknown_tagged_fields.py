"""Responses of newer or damaged brokers: unknown tagged fields (KIP-482), absurd lengths."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Callable
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from types import GenericAlias
from typing import Any, get_args

import pytest
from kio.static.primitive import i32, i64

from aioproducer.engine.cluster.metadata_response import MetadataNews
from aioproducer.engine.network import frames
from aioproducer.engine.protocol import Api, response_schema
from aioproducer.errors import ProtocolError
from aioproducer.errors.broker import ErrorCode
from tests.support.kio_messages import decode, encode, response_type
from tests.support.responses import at_once, unread
from tests.unit.network.as_kio_reads import expected, plain
from tests.unit.network.test_frames import EACH, body, response, with_code

FLEXIBLE = [each for each in EACH if response_type(*each).__flexible__]
CLASS_VARIABLES = ("__type__", "__version__", "__flexible__", "__api_key__", "__header_schema__")
TOMORROW: list[tuple[str, Any, Any]] = [
    ("soon", i64, field(metadata={"kafka_type": "int64", "tag": 77}, default=0)),
    ("later", str, field(metadata={"kafka_type": "string", "tag": 9000}, default="")),
]


def structs(kind: Any) -> list[Any]:
    """``kind`` and every struct in it."""
    found = [kind]
    for each in fields(kind):
        declared = get_args(each.type)[0] if get_args(each.type) else each.type
        if is_dataclass(declared):
            found += structs(declared)
    return found


def of_tomorrow(entity: Any, levels: list[Any]) -> Any:
    """``entity`` as a broker of tomorrow writes it, with more fields in each struct of ``levels``.

    Its class is one that kio can write, and does not know how to read.
    """
    kind = type(entity)
    declared: list[tuple[str, Any, Any]] = []
    values: dict[str, Any] = {}
    for each in fields(kind):
        value, its = getattr(entity, each.name), each.type
        default = {} if each.default is MISSING else {"default": each.default}
        if is_dataclass(value):
            value = of_tomorrow(value, levels)
            its = type(value) | None if get_args(its) else type(value)
            default = {}
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            value = tuple(of_tomorrow(inner, levels) for inner in value)
            its = GenericAlias(tuple, (type(value[0]), ...))
            value = tuple(type(value[0])(**_shallow(inner)) for inner in value)
        values[each.name] = value
        declared.append((each.name, its, field(metadata=dict(each.metadata), **default)))
    if kind in levels:
        declared += TOMORROW
        values |= {"soon": 7, "later": "x" * 200}
    names = {name: getattr(kind, name) for name in CLASS_VARIABLES if hasattr(kind, name)}
    made = make_dataclass(kind.__name__, declared, namespace=names, frozen=True, kw_only=True)
    return made(**values)


def _shallow(entity: Any) -> dict[str, Any]:
    return {each.name: getattr(entity, each.name) for each in fields(entity)}


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_unknown_fields_are_skipped_at_every_level(api: Api, version: int) -> None:
    sent = response(api, version)
    kind = response_type(api, version)
    header: Any = kind.__header_schema__(correlation_id=i32(5))
    every = structs(kind)
    for levels in (*([each] for each in every), every):
        wire = encode(header) + encode(of_tomorrow(sent, levels))
        assert len(wire) > len(body(sent))
        for rest in (b"", b"\0"):
            read = decode(kind, wire + rest)
            assert (plain(read.response), read.left_over) == (expected(sent), len(rest))


@pytest.mark.parametrize("version", [version for api, version in FLEXIBLE if api is Api.METADATA])
def test_unknown_fields_of_metadata_are_skipped_where_it_is_read_in_steps(version: int) -> None:
    sent: Any = response(Api.METADATA, version)
    (topic, *_) = sent.topics
    once = dataclasses.replace(topic, partitions=topic.partitions[:1])  # it repeats a partition
    sent = dataclasses.replace(sent, topics=(once,))
    kind = response_type(Api.METADATA, version)
    header: Any = kind.__header_schema__(correlation_id=i32(5))
    meant = in_steps(version, body(sent))
    assert list(meant.topics) == [topic.name] == list(meant.details)
    assert meant.brokers
    headers = [encode(each) for each in (header, of_tomorrow(header, [type(header)]))]
    every = structs(kind)
    for levels in (*([each] for each in every), every):
        for before in headers:
            for rest in (b"", b"\0"):
                wire = before + encode(of_tomorrow(sent, levels)) + rest
                found = in_steps(version, wire, len(rest))
                assert found == meant


def in_steps(version: int, wire: bytes, left_over: int = 0) -> MetadataNews:
    told: list[None] = []
    answer = unread(version, wire, on_left_over=lambda: told.append(None))
    said = at_once(answer.read({"orders"}, {"orders"}))
    assert len(told) == left_over
    return said


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_unknown_fields_of_the_header_are_skipped(api: Api, version: int) -> None:
    sent = response(api, version)
    kind = response_type(api, version)
    header: Any = kind.__header_schema__(correlation_id=i32(5))
    if not header.__flexible__:
        assert api is Api.API_VERSIONS, "which an old broker has to understand, too"
        return
    wire = encode(of_tomorrow(header, [type(header)])) + encode(sent)
    read = decode(kind, wire)
    assert (plain(read.response), read.left_over) == (expected(sent), 0)


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_unknown_fields_and_an_unknown_error_code(api: Api, version: int) -> None:
    kind = response_type(api, version)
    stand_in = ErrorCode.SHARE_SESSION_LIMIT_REACHED
    known = with_code(response(api, version), stand_in)
    wire = body(of_tomorrow(known, structs(kind)))
    wire = wire.replace(int(stand_in).to_bytes(2, "big"), (9999).to_bytes(2, "big"))
    assert (9999).to_bytes(2, "big") in wire
    assert plain(decode(kind, wire).response) == expected(known, 9999)


@pytest.mark.parametrize(("api", "version"), FLEXIBLE)
def test_a_field_that_is_cut_off_is_refused_wherever_it_ends(api: Api, version: int) -> None:
    kind = response_type(api, version)
    wire = body(of_tomorrow(response(api, version), [kind]))
    whole = len(body(response(api, version)))
    for end in range(whole, len(wire)):
        with pytest.raises(ProtocolError):
            decode(kind, wire[:end])


@pytest.mark.parametrize("count", [b"\x02", b"\xff\xff\xff\xff\x0f"])
@pytest.mark.parametrize("size", [b"\x01", b"\xff\xff\xff\xff\x0f"])
def test_more_fields_than_there_are_and_larger_ones_are_refused(count: bytes, size: bytes) -> None:
    kind = response_type(Api.INIT_PRODUCER_ID, 5)
    wire = body(response(Api.INIT_PRODUCER_ID, 5))[:-1]
    with pytest.raises(ProtocolError):
        decode(kind, wire + count + b"\x4d" + size + b"!")


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


def fixed(length: int) -> bytes:
    return length.to_bytes(4, "big", signed=True)


LISTS = [
    pytest.param(Api.METADATA, 4, THROTTLE, "brokers", 12, id="brokers"),
    pytest.param(Api.METADATA, 13, THROTTLE, "brokers", 11, id="brokers, flexible"),
    pytest.param(
        Api.METADATA,
        4,
        THROTTLE + fixed(0) + b"\xff\xff" + fixed(1),
        "topics",
        9,
        id="topics",
    ),
    pytest.param(
        Api.METADATA,
        13,
        THROTTLE + compact(0) + b"\0" + fixed(1),
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
    pytest.param(Api.PRODUCE, 7, fixed(1) + b"\0\1t", "partition_responses", 30, id="partitions"),
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
        + fixed(0)
        + b"\xff\xff"
        + fixed(1)
        + fixed(1)
        + b"\0\0\0\1t\0"
        + fixed(1)
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
    return head(api, version) + before + (compact(length) if flexible else fixed(length))


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
    rest = b"\0" + fixed(1) + compact(-1) + b"\0\0" + b"\0"
    if version < 9:
        rest = b"\xff\xff" + fixed(1) + fixed(-1)
    read = frames.decode_response(Api.METADATA, version, begin + rest)
    assert (read.response.brokers, read.response.topics, read.left_over) == ((), (), 0)


@pytest.mark.parametrize(
    ("api", "version", "before", "said"),
    [
        pytest.param(LOGIN, 1, b"\0\0\0\4", "error_message announces 4 bytes", id="text"),
        pytest.param(LOGIN, 2, b"\0\0\5", "error_message announces 4 bytes", id="compact text"),
        pytest.param(
            LOGIN, 1, b"\0\0\xff\xff" + fixed(4), "auth_bytes announces 4 bytes", id="bytes"
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
